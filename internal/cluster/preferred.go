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
// full. A server is full when it has its equal share of the ledgers and an eighth more. If all of them are
// full, because other servers lack keys, the ledger goes to the one with the fewest ledgers. Older ledgers
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
		if id := choose(name, candidates[name], counts, most); id != "" {
			preferred[name] = id
			counts[id]++
		}
	}
	return preferred
}

// choose returns the server for a ledger among servers, or "" if there are none. counts is the number of
// ledgers that each server has so far, and most the number at which a server is full.
func choose(name string, servers []string, counts map[string]int, most int) string {
	var best string
	var bestHash [sha256.Size]byte
	var bestExcess int // number of ledgers beyond most, the new one included; 0 if the server is not full
	for _, id := range servers {
		hash, excess := sha256.Sum256([]byte(name+"\x00"+id)), max(0, counts[id]+1-most)
		if best == "" || excess < bestExcess || excess == bestExcess && bytes.Compare(hash[:], bestHash[:]) > 0 {
			best, bestHash, bestExcess = id, hash, excess
		}
	}
	return best
}
