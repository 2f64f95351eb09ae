package main

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
	"colophon/internal/datadir"
	"colophon/proofs"
)

// serverSays is a server that answers at some URL.
func serverSays(change func(*serverAnswers)) func(*doctor) {
	return func(d *doctor) {
		d.server = serverAnswers{url: "http://127.0.0.1:8080", version: buildVersion(), date: doctorNow, open: true}
		change(&d.server)
	}
}

func TestCheckServer(t *testing.T) {
	runCheckCases(t, checkServer, []checkCase{
		{"good", serverSays(func(*serverAnswers) {}), fine, "is ready"},
		{"not asked", func(*doctor) {}, unchecked, "do not say"},
		{"silent", serverSays(func(a *serverAnswers) { a.err = errors.New("connection refused") }), unchecked, "connection refused"},
		{"not ready", serverSays(func(a *serverAnswers) { a.ready = errors.New("503 no room") }), wrong, "503 no room"},
		{"another version", serverSays(func(a *serverAnswers) { a.version = "v0.0.1" }), advice, "the server is v0.0.1"},
	})
}

func TestCheckAuthentication(t *testing.T) {
	withToken := func(open bool) func(*doctor) {
		return func(d *doctor) {
			serverSays(func(a *serverAnswers) { a.open = open })(d)
			makeToken(t, d.data(), doctorNow, "robot", access.Read, "default", time.Time{})
		}
	}
	runCheckCases(t, checkAuthentication, []checkCase{
		{"no server", func(*doctor) {}, unchecked, "no server"},
		{"none", serverSays(func(*serverAnswers) {}), fine, "asks nobody"},
		{"asks", withToken(false), fine, "asks for credentials"},
		{"does not ask", withToken(true), wrong, "answers whoever asks"},
	})
}

// namedLedger is a ledger of a folder's key as a server describes it.
func namedLedger(t testing.TB, data, name string) ledgerAnswers {
	t.Helper()
	return ledgerAnswers{ledgerInfo: ledgerInfo{Name: name, VerifierKey: makeKey(t, data, name).Verifier().String()}}
}

func TestCheckLedgerKeys(t *testing.T) {
	d := someDoctor(t)
	requireVerdict(t, checkLedgerKeys(d), unchecked, "no server")
	first, second := namedLedger(t, d.data(), "first"), namedLedger(t, d.data(), "second")
	serverSays(func(a *serverAnswers) { a.ledgers = []ledgerAnswers{first, second} })(d)
	requireVerdict(t, checkLedgerKeys(d), fine, "2 ledgers, each with its key: first, second")
	makeToken(t, d.data(), doctorNow, "robot", access.Read, "third", time.Time{})
	requireVerdict(t, checkLedgerKeys(d), advice, `third (token "robot")`)

	d.server.ledgers = []ledgerAnswers{first}
	requireVerdict(t, checkLedgerKeys(d), wrong, `key "second" has signed a ledger`)
	d.server.open = false // then the second may be one that the token is not for
	requireVerdict(t, checkLedgerKeys(d), fine, "1 ledger")

	first.VerifierKey = second.VerifierKey
	d.server.ledgers = []ledgerAnswers{first}
	requireVerdict(t, checkLedgerKeys(d), wrong, "signs with another key")
	require.NoError(t, os.Remove(datadir.Keys(d.data()).Path("first")))
	requireVerdict(t, checkLedgerKeys(d), wrong, "the key of ledger first")
	d.server.ledgersErr = errors.New("401 no")
	requireVerdict(t, checkLedgerKeys(d), unchecked, "401 no")
}

// smallLog is a log of one event, as its server answers it.
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
	receipt.Proof = &proofs.Proof{Event: body, Inclusion: proofs.Inclusion{TreeSize: 1}, Checkpoint: checkpoint}
	return ledgerAnswers{
		ledgerInfo: ledgerInfo{Name: name, VerifierKey: signer.Verifier().String(), TreeSize: 1},
		Tip:        hex.EncodeToString(tip[:]),
		entries:    []eventLine{{Entry: entry}},
		receipt:    receipt.AppendJSON(nil),
	}
}

func TestCheckLog(t *testing.T) {
	changed := func(change func(*doctor, *ledgerAnswers)) func(*doctor) {
		return func(d *doctor) {
			l := smallLog(t, d.data())
			change(d, &l)
			serverSays(func(a *serverAnswers) { a.ledgers = []ledgerAnswers{l} })(d)
		}
	}
	runCheckCases(t, checkLog, []checkCase{
		{"no server", func(*doctor) {}, unchecked, "no server"},
		{"no ledger", serverSays(func(*serverAnswers) {}), unchecked, "no ledger can be seen"},
		{"good", changed(func(*doctor, *ledgerAnswers) {}), fine, "1 log: the last 1 event chained, proved and signed"},
		{"may not be read", changed(func(_ *doctor, l *ledgerAnswers) { l.logErr = errors.New("403 no") }), unchecked, "403 no"},
		{"another event", changed(func(_ *doctor, l *ledgerAnswers) { l.entries[0].Entry[40] ^= 1 }), wrong, "the chain of events ends in"},
		{"another tip", changed(func(_ *doctor, l *ledgerAnswers) { l.Tip = "00" }), wrong, "the ledger says 00"},
		{"a link is missing", changed(func(_ *doctor, l *ledgerAnswers) {
			l.entries, l.TreeSize = append(l.entries, eventLine{Entry: make([]byte, 100)}), 2
		}), wrong, "the event before it is"},
		{"events are missing", changed(func(_ *doctor, l *ledgerAnswers) { l.TreeSize = 3 }), wrong, "1 of the last were answered"},
		{"another key", changed(func(d *doctor, l *ledgerAnswers) {
			require.NoError(t, os.Remove(datadir.Keys(d.data()).Path(l.Name)))
			makeKey(t, d.data(), l.Name)
		}), wrong, "by the key in the folder"},
		{"no key", changed(func(d *doctor, l *ledgerAnswers) {
			require.NoError(t, os.Remove(datadir.Keys(d.data()).Path(l.Name)))
		}), fine, "signed"},
		{"no receipt", changed(func(_ *doctor, l *ledgerAnswers) { l.receipt = []byte("{}") }), wrong, "malformed"},
	})
}

func TestCheckPublic(t *testing.T) {
	with := func(log string) func(*doctor) {
		return serverSays(func(a *serverAnswers) {
			a.ledgers = []ledgerAnswers{{ledgerInfo: ledgerInfo{Name: "default"}, Log: log}}
		})
	}
	runCheckCases(t, checkPublic, []checkCase{
		{"no server", func(*doctor) {}, unchecked, "no server"},
		{"none", with("private"), fine, "none"},
		{"one", with("public"), fine, "default"},
		{"unknown", serverSays(func(a *serverAnswers) { a.ledgersErr = errors.New("401") }), unchecked, "cannot be listed"},
	})
}

// metricsOf reads metrics as a server writes them.
func metricsOf(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return families
}

func TestCheckIndexAndErasure(t *testing.T) {
	with := func(lag, running, pending, age int) func(*doctor) {
		return serverSays(func(a *serverAnswers) {
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
	without := func(err error) func(*doctor) {
		return serverSays(func(a *serverAnswers) { a.metricsErr = err })
	}
	missing := []checkCase{
		{"no server", func(*doctor) {}, unchecked, "no server"},
		{"elsewhere", without(&problem{Status: http.StatusNotFound}), unchecked, "no /metrics at this address"},
		{"no scope", without(&problem{Status: http.StatusForbidden}), unchecked, "does not show its metrics"},
		{"failed", without(errors.New("broken pipe")), unchecked, "broken pipe"},
		{"another version", without(nil), unchecked, "does not show that metric"},
	}
	runCheckCases(t, checkIndex, append([]checkCase{
		{"good", with(3, 1, 0, 0), fine, "follows 1 ledger"},
		{"behind", with(50_000, 1, 0, 0), advice, "50000 events behind"},
		{"stopped", with(0, 0, 0, 0), wrong, "has stopped"},
	}, missing...))
	runCheckCases(t, checkErasure, append([]checkCase{
		{"good", with(0, 1, 0, 0), fine, "nothing"},
		{"pending", with(0, 1, 2, 5), advice, "2 erased texts"},
		{"late", with(0, 1, 2, 90), wrong, "since 1m30s"},
	}, missing...))
}
