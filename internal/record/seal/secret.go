package seal

import "bytes"

// LoadSecret reads a file with a shared secret, such as an HMAC key, that only
// its owner can read: see [LoadSigner] for what it refuses.
//
// The bytes of the file are the secret, but for the line break that ends a file
// of printable ASCII: editors and shells put it there, and the other holder of
// the secret does not type it.
func LoadSecret(path string) ([]byte, error) {
	data, err := readPrivateFile(path)
	if err != nil {
		return nil, err
	}
	if text, ok := bytes.CutSuffix(data, []byte("\n")); ok && printable(bytes.TrimSuffix(text, []byte("\r"))) {
		return bytes.TrimSuffix(text, []byte("\r")), nil
	}
	return data, nil
}

func printable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
