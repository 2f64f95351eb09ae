package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/limits"
	"colophon/ledger"
)

// Redactions of one ledger run one at a time, and a redaction that waits too long is refused. Redactions of
// another ledger are not affected.
func TestRedactionsTakeTurns(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxWait = time.Millisecond })
	_, err := s.host.Create(t.Context(), ledger.CreateOptions{Name: "other"})
	require.NoError(t, err)
	const body = `{"reason":"because","seqs":[0]}`
	done, err := s.server().shared.Limiter.RedactionTurns.Take(t.Context(), ledger.DefaultName)
	require.NoError(t, err)
	for _, dry := range []string{body, `{"reason":"because","seqs":[0],"dry_run":false,"as_of":1}`} {
		refused := s.post("/redactions", dry)
		require.Contains(t, refused.problem(http.StatusServiceUnavailable).Detail, "another redaction of this ledger")
		require.NotEmpty(t, refused.header.Get("Retry-After"))
	}
	require.EqualValues(t, 2, s.refusals(limits.ReasonRedactions))
	s.post(s.http.URL+"/v1/ledgers/other/redactions", body).want(http.StatusOK)
	done()
	s.redacting(body)
	s.redacting(body) // succeeds only because the previous call has released its turn
}

// A request that selects many records waits for a read turn, and is not treated as a write until it
// writes.
func TestManyRecordsAreSelectedInTurns(t *testing.T) {
	s := start(t)
	s.derived("/path-fingerprints", `{"project":"p","build":"b1","route":["a"],"content":"A."}`)
	s.post("/run-dags", dagBody).want(http.StatusCreated)
	size := s.size()
	for _, c := range []struct{ path, body string }{
		{"/redactions", `"reason":"r","seqs":[1]`},
		{"/redactions", `"reason":"r","filter":{"project":"p"}`},
		{"/state-changes", `"reason":"r","state":"stale","seqs":[2]`},
		{"/state-changes", `"reason":"r","state":"stale","filter":{"kind":"run_dag"}`},
		{"/paths/p/validations", `"validated":true,"build":"b1"`},
	} {
		use := func(turns *limits.ReadScheduler, held int) (release func()) {
			s.server().shared.Limiter.ReadScheduler = turns
			taken := make([]limits.ReadTurn, held)
			for i := range taken {
				require.NoError(t, taken[i].Take(t.Context(), turns, func() limits.Holder { return limits.Holder{Name: "other"} }))
			}
			return func() {
				for i := range taken {
					taken[i].Release()
				}
				require.Eventually(t, func() bool { return turns.RunningTurns() == 0 }, patience, time.Millisecond)
			}
		}
		for _, mode := range []string{"", `,"dry_run":false,"as_of":` + decimal(size)} {
			release := use(limits.NewReadScheduler(2, time.Millisecond), 2)
			require.Contains(t, s.post(c.path, "{"+c.body+mode+"}").problem(http.StatusServiceUnavailable).Detail, "waiting for a CPU core", c.path)
			release()
			release = use(limits.NewReadScheduler(2, patience), 1) // if the request counted as a write, the second turn would not be free
			s.post(c.path, "{"+c.body+mode+"}").want(http.StatusOK)
			release()
		}
	}
}

// MaxSelectedRecords limits how many records a filter can select.
func TestFiltersSelectABoundedNumber(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.MaxSelectedRecords = 2 })
	for _, at := range []string{"1", "2", "3"} {
		s.post("/run-dags", `{"timestamp":"2025-11-30T12:00:0`+at+`Z",`+dagBody[1:]).want(http.StatusCreated)
	}
	for _, path := range []string{"/redactions", "/state-changes"} {
		request := func(filter string, more string) answer {
			state := ""
			if path == "/state-changes" {
				state = `"state":"stale",`
			}
			return s.post(path, `{`+state+`"reason":"r","filter":{`+filter+`}`+more+`}`)
		}
		for _, filter := range []string{`"kind":"run_dag"`, `"kind":"run_dag","clock":"occurred"`} {
			p := request(filter, "").problem(http.StatusUnprocessableEntity)
			require.Equal(t, "/filter: selects from more than 2 records; split the request with since and until, or raise --max-selected", p.Detail)
		}
		request(`"kind":"run_dag"`, `,"as_of":3`).want(http.StatusOK)
		request(`"kind":"run_dag","clock":"occurred","since":"2025-11-30T12:00:02Z"`, "").want(http.StatusOK)
	}
}
