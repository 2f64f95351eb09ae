package cluster

import (
	"bytes"
	"crypto/sha256"

	"colophon/storage/postgres"
)

// PreferredWriters returns the ID of the server that should write each ledger. ledgers lists the names
// of all ledgers, from the oldest to the newest, and servers the running servers. A ledger without a
// server that has its keys is missing from the result.
//
// It is rendezvous hashing with bounded load: each ledger goes to the server whose hash of the ledger's
// name and the server's ID is the largest, among the servers that have the ledger's keys and are not
// full. A server is full when it has its equal share of the ledgers and an eighth more. Older ledgers
// choose first, so a new ledger moves others only if it changes the limit. If a server starts or stops,
// mostly the ledgers that it gains or loses move.
func PreferredWriters(ledgers []string, servers []postgres.RunningServer) map[string]string {
	preferred := make(map[string]string, len(ledgers))
	if len(servers) == 0 {
		return preferred
	}
	most := (len(ledgers) + len(servers) - 1) / len(servers)
	most += most / 8
	candidates := make(map[string][]string, len(ledgers)) // by the ledger's name
	for _, s := range servers {
		for _, name := range s.Ledgers {
			candidates[name] = append(candidates[name], s.ID)
		}
	}
	counts := make(map[string]int, len(servers))
	for _, name := range ledgers {
		if id := choose(name, candidates[name], func(id string) bool { return counts[id] >= most }); id != "" {
			preferred[name] = id
			counts[id]++
		}
	}
	return preferred
}

// choose returns the server with the largest hash among those that are not full, or among all servers if
// all of them are full. It returns "" if there are no servers.
func choose(name string, servers []string, full func(id string) bool) string {
	var best string
	var bestHash [sha256.Size]byte
	bestFull := true
	for _, id := range servers {
		hash, isFull := sha256.Sum256([]byte(name+"\x00"+id)), full(id)
		if best == "" || bestFull && !isFull || bestFull == isFull && bytes.Compare(hash[:], bestHash[:]) > 0 {
			best, bestHash, bestFull = id, hash, isFull
		}
	}
	return best
}
