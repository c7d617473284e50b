// Package openpgp reads the little of OpenPGP (RFC 9580, RFC 4880) that the
// signatures of people need: a public key with its signing subkeys, and one
// detached signature.
//
// Start with [Minimal], which takes what "gpg --export" writes and keeps the
// smallest key that says who signs; [ParseKey] reads that key again, and
// [ParseSignature] and [Key.Verify] do the rest. armor.go spells signatures as
// text.
//
// What a caller may rely on:
//
//   - Whatever is accepted has one spelling: [ParseKey] and [ParseSignature]
//     accept the bytes that encoding their result would give and no others.
//   - A subkey counts only if the primary key bound it for signing and it signed
//     back, so a signer cannot claim another person's subkey.
//   - Versions 4 and 6; Ed25519, NIST P-256 and P-384, RSA; SHA-256 and stronger.
//
// Where it stops: dates and expiry of OpenPGP are read and never judged, except
// that Minimal leaves out what has expired; who may sign when is for the signers
// file (package seal), which also refuses weak keys. It fetches nothing, writes
// nothing and holds no secret.
package openpgp

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// maxPacket bounds one packet. An RSA key of 16384 bits and its signatures take
// a few kilobytes.
const maxPacket = 16 << 10

// Tags of packets, RFC 9580 section 5.
const (
	tagSignature     = 2
	tagPublicKey     = 6
	tagTrust         = 12
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17
)

// A packet is one packet without its header.
type packet struct {
	tag  int
	body []byte
}

// encode frames a packet in the one spelling that is stored: the current header
// format with the shortest length (RFC 9580 section 4.2.1).
func (p packet) encode() []byte {
	out := []byte{0xC0 | byte(p.tag)}
	return append(appendLength(out, len(p.body)), p.body...)
}

// appendLength writes a length as packets and subpackets have it.
func appendLength(out []byte, n int) []byte {
	switch {
	case n < 192:
		return append(out, byte(n))
	case n < 8384:
		n -= 192
		return append(out, byte(n>>8)+192, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(out, 255), uint32(n))
}

// cutPacket takes the first packet off data, whichever header format it has.
// Packets of unknown length are refused: only data that is streamed needs them.
func cutPacket(data []byte) (packet, []byte, error) {
	if len(data) < 2 || data[0]&0x80 == 0 {
		return packet{}, nil, fmt.Errorf("not an OpenPGP packet")
	}
	var p packet
	var size int
	rest := data[1:]
	if data[0]&0x40 != 0 {
		p.tag = int(data[0] & 0x3F)
		var err error
		if size, rest, err = cutLength(rest); err != nil {
			return packet{}, nil, err
		}
	} else {
		p.tag = int(data[0]>>2) & 0x0F
		width := 1 << (data[0] & 3)
		if width == 8 || len(rest) < width {
			return packet{}, nil, fmt.Errorf("a packet without a length")
		}
		for _, b := range rest[:width] {
			size = size<<8 | int(b)
		}
		rest = rest[width:]
	}
	if size > maxPacket || size > len(rest) {
		return packet{}, nil, fmt.Errorf("a packet of %d bytes, %d are left and at most %d are read", size, len(rest), maxPacket)
	}
	p.body = rest[:size]
	return p, rest[size:], nil
}

// cutLength reads a length in the current format.
func cutLength(data []byte) (int, []byte, error) {
	short := fmt.Errorf("a length is cut off")
	switch {
	case len(data) < 1:
		return 0, nil, short
	case data[0] < 192:
		return int(data[0]), data[1:], nil
	case data[0] < 224:
		if len(data) < 2 {
			return 0, nil, short
		}
		return (int(data[0])-192)<<8 + int(data[1]) + 192, data[2:], nil
	case data[0] < 255:
		return 0, nil, fmt.Errorf("a packet in parts")
	case len(data) < 5:
		return 0, nil, short
	}
	return int(binary.BigEndian.Uint32(data[1:])), data[5:], nil
}

// splitPackets reads all packets of data.
func splitPackets(data []byte) ([]packet, error) {
	var packets []packet
	for len(data) > 0 {
		p, rest, err := cutPacket(data)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w", len(packets)+1, err)
		}
		packets, data = append(packets, p), rest
	}
	return packets, nil
}

// A reader takes fields off a packet's body. After a field that is not there
// every further one is empty, and failed says so.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) bytes(n int) []byte {
	if r.failed || n < 0 || n > len(r.data) {
		r.failed = true
		return nil
	}
	field := r.data[:n]
	r.data = r.data[n:]
	return field
}

func (r *reader) number(width int) int {
	n := 0
	for _, b := range r.bytes(width) {
		n = n<<8 | int(b)
	}
	return n
}

// integer reads a multiprecision integer in its only spelling: the bit count
// before it is exact (RFC 9580 section 3.2).
func (r *reader) integer() []byte {
	bits := r.number(2)
	field := r.bytes((bits + 7) / 8)
	if len(field) > 0 && (field[0] == 0 || field[0]>>((bits-1)%8) != 1) {
		r.failed = true
	}
	return field
}

// leftPad makes an integer as long as a fixed field.
func leftPad(field []byte, size int) []byte {
	if len(field) >= size {
		return field
	}
	return append(bytes.Repeat([]byte{0}, size-len(field)), field...)
}
