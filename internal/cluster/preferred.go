package cluster

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"colophon/storage/postgres"
)

// PreferredWriter returns the ID of the server that should write a ledger. For each server that has
// the ledger's keys, it hashes the ledger's name and the server's ID, and it selects the server
// with the largest hash. If a server starts or stops, only the ledgers that it gains or loses move.
// PreferredWriter returns "" if no server has the keys.
func PreferredWriter(name string, servers []postgres.RunningServer) string {
	var best string
	var most [sha256.Size]byte
	for _, s := range servers {
		if !slices.Contains(s.Ledgers, name) {
			continue
		}
		if weight := sha256.Sum256([]byte(name + "\x00" + s.ID)); best == "" || bytes.Compare(weight[:], most[:]) > 0 {
			best, most = s.ID, weight
		}
	}
	return best
}
