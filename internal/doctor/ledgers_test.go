package doctor

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/datadir"
	"colophon/proofs"
)

// withServer returns a change that adds a ready server to a deployment and then applies change to
// its answers.
func withServer(change func(*serverAnswers)) func(*deployment) {
	return func(d *deployment) {
		d.server = serverAnswers{url: "http://127.0.0.1:8080", version: d.version, date: testNow, open: true}
		change(&d.server)
	}
}

func TestCheckServer(t *testing.T) {
	runCheckCases(t, checkServer, []checkCase{
		{"good", withServer(func(*serverAnswers) {}), VerdictOK, "is ready"},
		{"not asked", func(*deployment) {}, VerdictNotChecked, "do not say"},
		{"silent", withServer(func(a *serverAnswers) { a.err = errors.New("connection refused") }), VerdictNotChecked, "connection refused"},
		{"not ready", withServer(func(a *serverAnswers) { a.ready = errors.New("503 no room") }), VerdictWrong, "503 no room"},
		{"another version", withServer(func(a *serverAnswers) { a.version = "v0.0.1" }), VerdictAdvice, "the server is v0.0.1"},
	})
}

func TestCheckAuthentication(t *testing.T) {
	withToken := func(open bool) func(*deployment) {
		return func(d *deployment) {
			withServer(func(a *serverAnswers) { a.open = open })(d)
			makeToken(t, d.data(), testNow, "robot", access.ScopeRead, "default", time.Time{})
		}
	}
	runCheckCases(t, checkAuthentication, []checkCase{
		{"no server", func(*deployment) {}, VerdictNotChecked, "no server"},
		{"none", withServer(func(*serverAnswers) {}), VerdictOK, "requires no credentials, as configured"},
		{"asks", withToken(false), VerdictOK, "requires credentials"},
		{"does not ask", withToken(true), VerdictWrong, "accepts requests without credentials"},
	})
}

// namedLedger creates a ledger's signing key and returns what the server would answer about that
// ledger.
func namedLedger(t testing.TB, data, name string) ledgerAnswers {
	t.Helper()
	return ledgerAnswers{LedgerDescription: wire.LedgerDescription{Name: name, VerifierKey: makeKey(t, data, name).Verifier().String()}}
}

func TestCheckLedgerKeys(t *testing.T) {
	d := newDeployment(t)
	requireFinding(t, checkLedgerKeys(d), VerdictNotChecked, "no server")
	first, second := namedLedger(t, d.data(), "first"), namedLedger(t, d.data(), "second")
	withServer(func(a *serverAnswers) { a.ledgers = []ledgerAnswers{first, second} })(d)
	requireFinding(t, checkLedgerKeys(d), VerdictOK, "2 ledgers, each with its key: first, second")
	makeToken(t, d.data(), testNow, "robot", access.ScopeRead, "third", time.Time{})
	requireFinding(t, checkLedgerKeys(d), VerdictAdvice, `third (token "robot")`)

	d.server.ledgers = []ledgerAnswers{first}
	requireFinding(t, checkLedgerKeys(d), VerdictWrong, `a signing key for ledger "second", but the server does not have this ledger`)
	d.server.open = false // the server requires a token, which might have no grant on the second ledger
	requireFinding(t, checkLedgerKeys(d), VerdictOK, "1 ledger")

	first.VerifierKey = second.VerifierKey
	d.server.ledgers = []ledgerAnswers{first}
	requireFinding(t, checkLedgerKeys(d), VerdictWrong, "does not sign with the key in the data folder")
	require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).Path("first")))
	requireFinding(t, checkLedgerKeys(d), VerdictWrong, "the key of ledger first")
	d.settings.config.ReadOnly = true
	requireFinding(t, checkLedgerKeys(d), VerdictOK, "1 ledger, which a read-only server serves without a signing key: first")
	d.server.ledgersErr = errors.New("401 no")
	requireFinding(t, checkLedgerKeys(d), VerdictNotChecked, "401 no")
}

// smallLog returns what the server would answer about a log with a single event.
func smallLog(t testing.TB, data string) ledgerAnswers {
	t.Helper()
	const name = "default"
	body := []byte(`{"actor":"anonymous","checks":{},"kind":"ledger_created","ledger":"default","record":{},"rules":1,"seq":0,"time":"2026-03-01T12:00:00.000000Z","v":1}`)
	entry := proofs.AppendEntry(nil, proofs.Hash{}, body)
	tip, leaf := proofs.EventHash(proofs.Hash{}, body), proofs.LeafHash(entry)
	signer := makeKey(t, data, name)
	checkpoint, err := signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: 1, Root: leaf})
	require.NoError(t, err)
	receipt, err := proofs.NewReceipt(entry)
	require.NoError(t, err)
	receipt.Proof = &proofs.ReceiptProof{Event: body, Inclusion: proofs.InclusionProof{TreeSize: 1}, Checkpoint: checkpoint}
	return ledgerAnswers{
		LedgerDescription: wire.LedgerDescription{Name: name, VerifierKey: signer.Verifier().String(), TreeSize: 1, Tip: hex.EncodeToString(tip[:])},
		entries:           []wire.EventLine{{Entry: entry}},
		receipt:           receipt.AppendJSON(nil),
	}
}

func TestCheckLog(t *testing.T) {
	changed := func(change func(*deployment, *ledgerAnswers)) func(*deployment) {
		return func(d *deployment) {
			l := smallLog(t, d.data())
			change(d, &l)
			withServer(func(a *serverAnswers) { a.ledgers = []ledgerAnswers{l} })(d)
		}
	}
	runCheckCases(t, checkLog, []checkCase{
		{"no server", func(*deployment) {}, VerdictNotChecked, "no server"},
		{"no ledger", withServer(func(*serverAnswers) {}), VerdictNotChecked, "no ledger is visible to this command"},
		{"good", changed(func(*deployment, *ledgerAnswers) {}), VerdictOK, "1 log: the chain, proof, and signature of the last 1 event are valid"},
		{"may not be read", changed(func(_ *deployment, l *ledgerAnswers) { l.logErr = errors.New("403 no") }), VerdictNotChecked, "403 no"},
		{"another event", changed(func(_ *deployment, l *ledgerAnswers) { l.entries[0].Entry[40] ^= 1 }), VerdictWrong, "the chain of events ends with the hash"},
		{"another tip", changed(func(_ *deployment, l *ledgerAnswers) { l.Tip = "00" }), VerdictWrong, "the ledger's tip is 00"},
		{"a link is missing", changed(func(_ *deployment, l *ledgerAnswers) {
			l.entries, l.TreeSize = append(l.entries, wire.EventLine{Entry: make([]byte, 100)}), 2
		}), VerdictWrong, "the hash of the previous event is"},
		{"events are missing", changed(func(_ *deployment, l *ledgerAnswers) { l.TreeSize = 3 }), VerdictWrong, "of the last 3 events, the server returned only 1"},
		{"another key", changed(func(d *deployment, l *ledgerAnswers) {
			require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).Path(l.Name)))
			makeKey(t, d.data(), l.Name)
		}), VerdictWrong, "verifying ledger default with the key in the folder"},
		{"no key", changed(func(d *deployment, l *ledgerAnswers) {
			require.NoError(t, os.Remove(datadir.KeyFiles(d.data()).Path(l.Name)))
		}), VerdictOK, "signature"},
		{"no receipt", changed(func(_ *deployment, l *ledgerAnswers) { l.receipt = []byte("{}") }), VerdictWrong, "malformed"},
	})
}

func TestCheckPublic(t *testing.T) {
	with := func(log string) func(*deployment) {
		return withServer(func(a *serverAnswers) {
			a.ledgers = []ledgerAnswers{{LedgerDescription: wire.LedgerDescription{Name: "default", LogVisibility: log}}}
		})
	}
	runCheckCases(t, checkPublic, []checkCase{
		{"no server", func(*deployment) {}, VerdictNotChecked, "no server"},
		{"none", with("private"), VerdictOK, "none"},
		{"one", with("public"), VerdictOK, "default"},
		{"unknown", withServer(func(a *serverAnswers) { a.ledgersErr = errors.New("401") }), VerdictNotChecked, "cannot be listed"},
	})
}

// metricsOf parses metrics in the Prometheus text format.
func metricsOf(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return families
}

func TestCheckIndexAndErasure(t *testing.T) {
	with := func(lag, running, pending, age int) func(*deployment) {
		return withServer(func(a *serverAnswers) {
			a.metrics = metricsOf(t, fmt.Sprintf(`# TYPE colophon_index_lag_events gauge
colophon_index_lag_events{ledger="default"} %d
# TYPE colophon_index_running gauge
colophon_index_running{ledger="default"} %d
# TYPE colophon_erasures_pending gauge
colophon_erasures_pending %d
# TYPE colophon_erasures_pending_age_seconds gauge
colophon_erasures_pending_age_seconds %d
`, lag, running, pending, age))
		})
	}
	without := func(err error) func(*deployment) {
		return withServer(func(a *serverAnswers) { a.metricsErr = err })
	}
	missing := []checkCase{
		{"no server", func(*deployment) {}, VerdictNotChecked, "no server"},
		{"elsewhere", without(&client.Error{Problem: wire.Problem{Status: http.StatusNotFound}}), VerdictNotChecked, "does not serve /metrics at this address"},
		{"no scope", without(&client.Error{Problem: wire.Problem{Status: http.StatusForbidden}}), VerdictNotChecked, "denies this command access to its metrics"},
		{"failed", without(errors.New("broken pipe")), VerdictNotChecked, "broken pipe"},
		{"another version", without(nil), VerdictNotChecked, "does not expose the metric that this check needs"},
	}
	runCheckCases(t, checkIndex, append([]checkCase{
		{"good", with(3, 1, 0, 0), VerdictOK, "follows 1 ledger"},
		{"behind", with(50_000, 1, 0, 0), VerdictAdvice, "50000 events behind"},
		{"stopped", with(0, 0, 0, 0), VerdictWrong, "has stopped"},
	}, missing...))
	runCheckCases(t, checkErasure, append([]checkCase{
		{"good", with(0, 1, 0, 0), VerdictOK, "the database files contain no erased text"},
		{"pending", with(0, 1, 2, 5), VerdictAdvice, "2 recently erased texts"},
		{"late", with(0, 1, 2, 90), VerdictWrong, "the oldest for 1m30s"},
		{"in a database", func(d *deployment) {
			withServer(func(*serverAnswers) {})(d)
			d.settings.config.StoreURL = "postgres://db.example.org/colophon"
		}, VerdictOK, "an erasure removes the texts from the tables"},
	}, missing...))
}
