package evidence

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// OperatorHash is what records carry in place of an operator's name. The salt
// keeps strangers from finding the name by trying names; a reader who is told
// the salt can check it.
func OperatorHash(identity, key, salt string) (digest.ID, error) {
	data, err := canon.Marshal(struct {
		Identity string `json:"identity"`
		Key      string `json:"key"`
		Salt     string `json:"salt"`
	}{identity, key, salt})
	return digest.IDOf(data), err
}
