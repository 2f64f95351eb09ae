package api

import (
	"net/http"

	"colophon/api/call"
)

// maxHealthyLag is the lag in events above which the index is reported as behind.
const maxHealthyLag = 100_000

// indexHealth describes a fault in one of the indexes, or returns "" if there is none. The
// description does not name the ledger, because it is sent to callers without credentials. stopped
// means that the readiness check must fail. It is false for an index that merely lags, because the
// server still accepts writes and answers queries.
func (s *Server) indexHealth() (detail string, stopped bool) {
	for _, l := range s.host.Ledgers() {
		follower := s.config.Index.Follower(l.Name())
		if follower.Err() != nil {
			return "the index of a ledger has stopped; the server's log names the ledger and the cause", true
		}
		if size := l.Head().Size; size > follower.Size()+maxHealthyLag {
			detail = "the index of a ledger is behind"
		}
	}
	if detail != "" && s.config.Index.RebuildCount() > 0 {
		detail = "the index was damaged and is being rebuilt"
	}
	return detail, false
}

// answerHealth responds with word, followed by detail if the index has a fault.
func answerHealth(c *call.Call, word, detail string) error {
	if detail != "" {
		word += "; " + detail
	}
	return c.String(http.StatusOK, word+"\n")
}
