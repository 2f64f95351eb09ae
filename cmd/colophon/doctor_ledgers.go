package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/proofs"
	"colophon/storage"
)

// notAsked is the finding of a check that needs a server, where none answers.
func (d *doctor) notAsked() []diagnosis {
	return found(unchecked, "", "no server answers")
}

// answers reports whether a server answers.
func (d *doctor) answers() bool { return d.server.url != "" && d.server.err == nil }

// checkServer: it answers, is ready, serves this folder, and is of this version.
func checkServer(d *doctor) []diagnosis {
	a := d.server
	nameIt := "name it with --server, or give --listen and --tls-cert as serve has them"
	var known misdirectedError
	switch {
	case a.url == "":
		return found(unchecked, nameIt, "the settings do not say where a server listens")
	case errors.As(a.err, &known):
		return found(unchecked, known.advice, "%v", known.error)
	case a.err != nil:
		return found(unchecked, "start it (colophon serve), or name another with --server", "%v", a.err)
	}
	var list []diagnosis
	if a.ready != nil {
		list = append(list, found(wrong, "do what it says", "it is not ready: %v", a.ready)...)
	}
	if a.version != buildVersion() {
		list = append(list, found(advice, "use one version of both", "the server is %s, this command is %s", cli.Plain(a.version), buildVersion())...)
	}
	return orFine(list, "%s at %s is ready", a.version, a.url)
}

// checkAuthentication: the server asks for credentials where the settings say so.
func checkAuthentication(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	required, err := d.authentication()
	switch {
	case err != nil:
		return found(unchecked, asOwner, "%v", err)
	case d.server.open && required:
		return found(wrong, "make sure that these settings are those of the server, then start it anew", "the server answers whoever asks, and the settings say that it should not")
	case d.server.open:
		return found(fine, "", "the server asks nobody who he is")
	}
	return found(fine, "", "the server asks for credentials")
}

// checkLedgerKeys: every ledger has its key in the folder, every key its ledger, and
// every token ledgers that there are.
func checkLedgerKeys(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	if d.server.ledgersErr != nil {
		return found(unchecked, "give a token with COLOPHON_TOKEN or --token-file", "%v", d.server.ledgersErr)
	}
	names, err := keyNames(d.data())
	if err != nil {
		return found(unchecked, asOwner, "%v", err)
	}
	known := make(map[string]bool)
	var list []diagnosis
	for _, l := range d.server.ledgers {
		known[l.Name] = true
		list = append(list, checkLedgerKey(d, l)...)
	}
	// Whoever has to show a token sees the ledgers that it is for; others may be there.
	if d.server.open {
		for _, name := range names {
			if !known[name] {
				list = append(list, found(wrong, "restore the database that it belongs to; to begin another log move the key away", "key %q has signed a ledger that the server does not have", name)...)
			}
		}
		list = append(list, checkTokenLedgers(d, known)...)
	}
	return orFine(list, "%s, each with its key: %s", cli.Counted(uint64(len(known)), "ledger"), nameList(slices.Sorted(maps.Keys(known))))
}

// checkLedgerKey: the key of a ledger is in the folder, and is the one that it signs
// with.
func checkLedgerKey(d *doctor, l ledgerAnswers) []diagnosis {
	signer, err := datadir.Keys(d.data()).Load(l.Name)
	signed, signedErr := os.ReadFile(datadir.SigningKeys(d.Console, d.data()).SignedPath(l.Name))
	switch {
	case signedErr == nil && errors.Is(err, storage.ErrNotFound) && strings.TrimSpace(string(signed)) == l.VerifierKey:
		return nil // it is in a variable
	case errors.Is(err, fs.ErrPermission):
		return found(unchecked, asOwner, "%v", err)
	case err != nil:
		return found(wrong, "restore it before the server ends: it does not start again without it", "the key of ledger %s: %v", cli.Plain(l.Name), err)
	case signer.Verifier().String() != l.VerifierKey:
		return found(wrong, "name the folder of this server with --data; if this is it, the database or the key is an older copy: restore the newer one of both, and never put an older key in place of a newer one", "ledger %s signs with another key than the one in the folder", cli.Plain(l.Name))
	}
	return nil
}

// checkTokenLedgers finds tokens for ledgers that there are not.
func checkTokenLedgers(d *doctor, known map[string]bool) []diagnosis {
	store := access.Store{Dir: datadir.Access(d.data()), Now: func() time.Time { return d.now }}
	tokens, err := store.List()
	if err != nil {
		return nil // checkTokens says so
	}
	missing := unknownLedgers(tokens, d.now, func(name string) bool { return known[name] })
	if len(missing) == 0 {
		return nil
	}
	return found(advice, "make the ledgers, or correct the names", "tokens are for ledgers that do not exist: %s", nameList(missing))
}

// checkLog: the last events of each ledger are a chain that ends where the ledger says,
// and the receipt of the last one holds, signature included.
func checkLog(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	var list []diagnosis
	events, logs := uint64(0), 0
	for _, l := range d.server.ledgers {
		if l.logErr != nil {
			list = append(list, found(unchecked, "use a token of scope read or log", "ledger %s: %v", cli.Plain(l.Name), l.logErr)...)
			continue
		}
		key, whose := d.verifierOf(l)
		if err := l.verify(key); err != nil {
			list = append(list, found(wrong, "stop the server and run: colophon fsck --data "+d.data(), "ledger %s, by %s: %v", cli.Plain(l.Name), whose, err)...)
		}
		events, logs = events+uint64(len(l.entries)), logs+1
	}
	if logs == 0 && len(list) == 0 {
		return found(unchecked, "", "no ledger can be seen")
	}
	return orFine(list, "%s: the last %s chained, proved and signed", cli.Counted(uint64(logs), "log"), cli.Counted(events, "event"))
}

// verifierOf is the key that a ledger's checkpoints are verified with: that of the
// folder, or where it cannot be read the server's own word.
func (d *doctor) verifierOf(l ledgerAnswers) (key, whose string) {
	if signer, err := datadir.Keys(d.data()).Load(l.Name); err == nil {
		return signer.Verifier().String(), "the key in the folder"
	}
	return l.VerifierKey, "the key that the server names"
}

// verify checks what the server has said of a log.
func (l *ledgerAnswers) verify(key string) error {
	verifier, err := proofs.ParseVerifier(key)
	if err != nil {
		return err
	}
	if uint64(len(l.entries)) != min(lastEvents, l.TreeSize) {
		return fmt.Errorf("it has %d events, and %d of the last were answered", l.TreeSize, len(l.entries))
	}
	chain := proofs.Chain{Size: l.TreeSize - uint64(len(l.entries))}
	if prev, _, err := proofs.SplitEntry(l.entries[0].Entry); err != nil {
		return err
	} else if chain.Size > 0 {
		chain.Tip = prev
	}
	for _, e := range l.entries {
		if _, err := chain.Next(e.Entry); err != nil {
			return err
		}
	}
	if hex.EncodeToString(chain.Tip[:]) != l.Tip {
		return fmt.Errorf("the chain of events ends in %x, the ledger says %s", chain.Tip, cli.Plain(l.Tip))
	}
	receipt, err := proofs.ParseReceipt(l.receipt)
	if err != nil {
		return err
	}
	if receipt.EventHash != chain.Tip {
		return errors.New("the receipt of the last event is of another event")
	}
	return receipt.Verify(verifier)
}

// checkPublic names the logs that everybody may read.
func checkPublic(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	if d.server.ledgersErr != nil {
		return found(unchecked, "", "the ledgers cannot be listed")
	}
	var public []string
	for _, l := range d.server.ledgers {
		if l.Log == "public" {
			public = append(public, cli.Plain(l.Name))
		}
	}
	if len(public) == 0 {
		return found(fine, "", "none")
	}
	return found(fine, "", "everybody may read the events, though not the texts, of %s", nameList(public))
}

// indexLagging is how many events an index may be behind without being spoken of.
const indexLagging = 10_000

// checkIndex: it runs, and is not far behind.
func checkIndex(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	lag, running := d.server.gauges("colophon_index_lag_events"), d.server.gauges("colophon_index_running")
	if lag == nil || running == nil {
		return d.noMetrics()
	}
	var list []diagnosis
	for _, name := range slices.Sorted(maps.Keys(lag)) {
		switch {
		case running[name] == 0:
			list = append(list, found(wrong, "read the server's log and start it anew; if that does not help, stop it and remove the folder "+datadir.Index(d.data()), "the index of ledger %s has stopped", cli.Plain(name))...)
		case lag[name] > indexLagging:
			list = append(list, found(advice, "wait, if there was an import or a rebuild; else the machine is too slow", "the index of ledger %s is %.0f events behind", cli.Plain(name), lag[name])...)
		}
	}
	return orFine(list, "it follows %s", cli.Counted(uint64(len(lag)), "ledger"))
}

// erasureLate is when erased content should be out of the files.
const erasureLate = time.Minute

// checkErasure: what was erased is out of the files.
func checkErasure(d *doctor) []diagnosis {
	if !d.answers() {
		return d.notAsked()
	}
	pending := d.server.gauges("colophon_erasures_pending")
	if pending == nil {
		return d.noMetrics()
	}
	age := time.Duration(d.server.gauges("colophon_erasures_pending_age_seconds")[""]) * time.Second
	switch n := pending[""]; {
	case n > 0 && age > erasureLate:
		return found(wrong, "let a backup that is under way end, and make room on the disk if it is short; the server's log says why", "%.0f erased texts are still in the files, the first since %s", n, age)
	case n > 0:
		return found(advice, "look again in a minute", "%.0f erased texts are not out of the files yet", n)
	}
	return found(fine, "", "nothing that was erased is left in the files")
}

// noMetrics is the finding of a check that needs metrics which are not there.
func (d *doctor) noMetrics() []diagnosis {
	refused := (*problem)(nil)
	switch {
	case errors.As(d.server.metricsErr, &refused) && refused.Status == http.StatusNotFound:
		return found(unchecked, "give --metrics-listen as serve has it", "the server has no /metrics at this address")
	case errors.As(d.server.metricsErr, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return found(unchecked, "use a token of scope metrics on all ledgers", "the server does not show its metrics to this command")
	case d.server.metricsErr != nil:
		return found(unchecked, "", "%v", d.server.metricsErr)
	}
	return found(unchecked, "use one version of both", "the server does not show that metric")
}
