package paths

import (
	"crypto/md5" // #nosec G501 -- path ids are MD5 by definition (spec: Path categories)
	"crypto/sha256"
	"encoding/hex"
)

// pathIDStep is the length of a path_id, and by how much that of a path is longer
// whose path_id is held (spec: Path categories), in hex digits.
const pathIDStep = 8

// assignPathID is the path_id of a new path: the first eight digits of its route's
// MD5, or as many more as it takes to find one that no other path holds. Where all
// 32 are held (routes can be made to have one MD5) those of SHA-256 follow, and
// some of them are free.
func assignPathID(route []byte, held func(id []byte) bool) []byte {
	short, long := md5.Sum(route), sha256.Sum256(route) // #nosec G401 -- path ids are MD5 by definition (spec: Path categories)
	digits := hex.AppendEncode(hex.AppendEncode(nil, short[:]), long[:])
	id := digits[:pathIDStep]
	for len(id) < len(digits) && held(id) {
		id = digits[:len(id)+pathIDStep]
	}
	return id
}
