package paths

import (
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path categories)
	"crypto/sha256"
	"encoding/hex"
)

// pathIDStep is the length of a path_id in hexadecimal digits, and the length by which it
// grows after a collision (spec: Path categories).
const pathIDStep = 8

// assignPathID returns the path_id of a new path: the first eight digits of its route's MD5,
// extended by eight digits at a time until no other path has the same one. The digits of
// SHA-256 follow the 32 digits of MD5, because routes with equal MD5 can be constructed.
func assignPathID(route []byte, held func(id []byte) bool) []byte {
	short, long := md5.Sum(route), sha256.Sum256(route) // #nosec G401 -- path ids are MD5 by definition (spec: Path categories)
	digits := hex.AppendEncode(hex.AppendEncode(nil, short[:]), long[:])
	id := digits[:pathIDStep]
	for len(id) < len(digits) && held(id) {
		id = digits[:len(id)+pathIDStep]
	}
	return id
}
