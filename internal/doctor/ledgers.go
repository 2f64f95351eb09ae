package doctor

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

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/proofs"
	"colophon/storage"
)

// noServer returns the finding of a check that could not run because no server answers.
func (d *deployment) noServer() []Finding {
	return finding(VerdictNotChecked, "", "no server was reachable")
}

// answers reports whether a server was queried and answered.
func (d *deployment) answers() bool { return d.server.url != "" && d.server.err == nil }

// checkServer checks that the server answers, is ready, and has the same version as this program.
func checkServer(d *deployment) []Finding {
	a := d.server
	nameIt := "name the server with --server, or pass the same --listen and --tls-cert as to serve"
	var setup *remote.SetupError
	switch {
	case a.url == "":
		return finding(VerdictNotChecked, nameIt, "the settings do not say where the server listens")
	case errors.As(a.err, &setup):
		return finding(VerdictNotChecked, setup.Advice, "%v", setup.Err)
	case a.err != nil:
		return finding(VerdictNotChecked, "start the server (colophon serve), or name another server with --server", "%v", a.err)
	}
	var list []Finding
	if a.ready != nil {
		list = append(list, finding(VerdictWrong, "fix the reported problem", "the server is not ready: %v", a.ready)...)
	}
	if a.version != d.version {
		list = append(list, finding(VerdictAdvice, "use the same version for the server and for this command", "the server is %s, but this command is %s", cli.QuoteCell(a.version), d.version)...)
	}
	return orOK(list, "%s at %s is ready", a.version, a.url)
}

// checkAuthentication checks that the server requires credentials if the settings demand them.
func checkAuthentication(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	required, err := d.authentication()
	switch {
	case err != nil:
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	case d.server.open && required:
		return finding(VerdictWrong, "make sure that the server uses these settings, then restart the server", "the server accepts requests without credentials, but the settings require credentials")
	case d.server.open:
		return finding(VerdictOK, "", "the server requires no credentials, as configured")
	}
	return finding(VerdictOK, "", "the server requires credentials")
}

// checkLedgerKeys checks that the key of every ledger is in the data folder, that every key belongs
// to a ledger, and that tokens refer only to ledgers that exist.
func checkLedgerKeys(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	if d.server.ledgersErr != nil {
		return finding(VerdictNotChecked, "provide a token with COLOPHON_TOKEN or --token-file", "%v", d.server.ledgersErr)
	}
	names, err := datadir.LedgersWithKeys(d.data())
	if err != nil {
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	}
	known := make(map[string]bool)
	var list []Finding
	for _, l := range d.server.ledgers {
		known[l.Name] = true
		if !d.settings.config.ReadOnly {
			list = append(list, checkLedgerKey(d, l)...)
		}
	}
	// With a token, a client sees only the ledgers that the token has a grant on.
	if d.server.open {
		for _, name := range names {
			if !known[name] {
				list = append(list, finding(VerdictWrong, "restore the ledger's database; to start a new log, move the key out of the data folder", "the data folder has a signing key for ledger %q, but the server does not have this ledger", name)...)
			}
		}
		list = append(list, checkTokenLedgers(d, known)...)
	}
	keys := "each with its key"
	if d.settings.config.ReadOnly {
		keys = "which a read-only server serves without a signing key"
	}
	return orOK(list, "%s, %s: %s", cli.FormatCount(uint64(len(known)), "ledger"), keys, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// checkLedgerKey checks that a ledger's key is in the data folder and that the ledger signs with
// that key.
func checkLedgerKey(d *deployment, l ledgerAnswers) []Finding {
	signer, err := datadir.KeyFiles(d.data()).Load(l.Name)
	signed, signedErr := os.ReadFile(datadir.SigningKeys(d.console, d.data()).LastSignerPath(l.Name))
	switch {
	case signedErr == nil && errors.Is(err, storage.ErrNotFound) && strings.TrimSpace(string(signed)) == l.VerifierKey:
		return nil // the key is in an environment variable
	case errors.Is(err, fs.ErrPermission):
		return finding(VerdictNotChecked, adviceRunAsOwner, "%v", err)
	case err != nil:
		return finding(VerdictWrong, "restore the key before stopping the server; the server cannot start without the key", "the key of ledger %s: %v", cli.QuoteCell(l.Name), err)
	case signer.Verifier().String() != l.VerifierKey:
		return finding(VerdictWrong, "name this server's folder with --data; if the folder is correct, its database or key is an outdated copy: restore a newer copy, and never replace a newer key with an older one", "ledger %s does not sign with the key in the data folder", cli.QuoteCell(l.Name))
	}
	return nil
}

// checkTokenLedgers reports the nonexistent ledgers to which tokens refer.
func checkTokenLedgers(d *deployment, known map[string]bool) []Finding {
	tokens, err := d.listTokens()
	if err != nil {
		return nil // checkTokens reports the error
	}
	missing := unknownLedgers(tokens, d.now, func(name string) bool { return known[name] })
	if len(missing) == 0 {
		return nil
	}
	return finding(VerdictAdvice, "create the ledgers, or correct the names", "tokens name ledgers that do not exist: %s", strings.Join(missing, ", "))
}

// checkLog checks that the last events of each ledger form a chain that ends in the ledger's tip,
// and verifies the receipt of the last event.
func checkLog(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	var list []Finding
	events, logs := uint64(0), 0
	for _, l := range d.server.ledgers {
		if l.logErr != nil {
			list = append(list, finding(VerdictNotChecked, "use a token with the scope read or log", "ledger %s: %v", cli.QuoteCell(l.Name), l.logErr)...)
			continue
		}
		key, whose := d.verifierOf(l)
		if err := l.verify(key); err != nil {
			list = append(list, finding(VerdictWrong, "stop the server and run: colophon fsck --data "+d.data(), "verifying ledger %s with %s: %v", cli.QuoteCell(l.Name), whose, err)...)
		}
		events, logs = events+uint64(len(l.entries)), logs+1
	}
	if logs == 0 && len(list) == 0 {
		return finding(VerdictNotChecked, "", "no ledger is visible to this command")
	}
	return orOK(list, "%s: the chain, proof, and signature of the last %s are valid", cli.FormatCount(uint64(logs), "log"), cli.FormatCount(events, "event"))
}

// verifierOf returns the key with which to verify a ledger's checkpoints. This is the key in the
// data folder or, if that key cannot be read, the key that the server names. whose says in words
// which key was chosen.
func (d *deployment) verifierOf(l ledgerAnswers) (key, whose string) {
	if signer, err := datadir.KeyFiles(d.data()).Load(l.Name); err == nil {
		return signer.Verifier().String(), "the key in the folder"
	}
	return l.VerifierKey, "the key that the server names"
}

// verify verifies the last events of a log and the receipt of the last one.
func (l *ledgerAnswers) verify(key string) error {
	verifier, err := proofs.ParseVerifier(key)
	if err != nil {
		return err
	}
	if uint64(len(l.entries)) != min(lastEvents, l.TreeSize) {
		return fmt.Errorf("of the last %d events, the server returned only %d", min(lastEvents, l.TreeSize), len(l.entries))
	}
	chain := proofs.Chain{Size: l.TreeSize - uint64(len(l.entries))}
	if prev, _, err := proofs.SplitEntry(l.entries[0].Entry); err != nil {
		return err
	} else if chain.Size > 0 {
		chain.Tip = prev
	}
	for _, e := range l.entries {
		if _, err := chain.Advance(e.Entry); err != nil {
			return err
		}
	}
	if hex.EncodeToString(chain.Tip[:]) != l.Tip {
		return fmt.Errorf("the chain of events ends with the hash %x, but the ledger's tip is %s", chain.Tip, cli.QuoteCell(l.Tip))
	}
	receipt, err := proofs.ParseReceipt(l.receipt)
	if err != nil {
		return err
	}
	if receipt.EventHash != chain.Tip {
		return errors.New("the server's receipt for the last event belongs to a different event")
	}
	return receipt.Verify(verifier)
}

// checkPublic names the ledgers whose logs can be read without credentials.
func checkPublic(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	if d.server.ledgersErr != nil {
		return finding(VerdictNotChecked, "", "the ledgers cannot be listed")
	}
	var public []string
	for _, l := range d.server.ledgers {
		if l.LogVisibility == "public" {
			public = append(public, cli.QuoteCell(l.Name))
		}
	}
	if len(public) == 0 {
		return finding(VerdictOK, "", "none")
	}
	return finding(VerdictOK, "", "anyone can read the events, but not the texts, of %s without credentials", strings.Join(public, ", "))
}

// indexLagging is the number of events by which an index may lag before the doctor reports it.
const indexLagging = 10_000

// checkIndex checks that the index of each ledger is running and lags by at most indexLagging
// events.
func checkIndex(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	lag, running := d.server.gauges("colophon_index_lag_events"), d.server.gauges("colophon_index_running")
	if lag == nil || running == nil {
		return d.noMetrics()
	}
	var list []Finding
	for _, name := range slices.Sorted(maps.Keys(lag)) {
		switch {
		case running[name] == 0:
			list = append(list, finding(VerdictWrong, "check the server's log and restart the server; if that does not help, stop the server and remove the folder "+datadir.IndexFolder(d.data()), "the index of ledger %s has stopped", cli.QuoteCell(name))...)
		case lag[name] > indexLagging:
			list = append(list, finding(VerdictAdvice, "wait if there was an import or a rebuild; otherwise the machine is too slow", "the index of ledger %s is %.0f events behind", cli.QuoteCell(name), lag[name])...)
		}
	}
	return orOK(list, "the index follows %s", cli.FormatCount(uint64(len(lag)), "ledger"))
}

// erasureLate is how long erased content may remain in the files before the doctor reports it.
const erasureLate = time.Minute

// checkErasure checks that erased content has been removed from the files.
func checkErasure(d *deployment) []Finding {
	if !d.answers() {
		return d.noServer()
	}
	pending := d.server.gauges("colophon_erasures_pending")
	switch {
	case pending == nil && d.settings.config.StoreURL != "":
		return finding(VerdictOK, "", "an erasure removes the texts from the tables; the database does not report how long its files, standbys, and backups keep them")
	case pending == nil:
		return d.noMetrics()
	}
	age := time.Duration(d.server.gauges("colophon_erasures_pending_age_seconds")[""]) * time.Second
	switch n := pending[""]; {
	case n > 0 && age > erasureLate:
		return finding(VerdictWrong, "if a backup is running, wait until it finishes; if disk space is short, free some; the server's log gives the reason", "%.0f erased texts are still in the database files, the oldest for %s", n, age)
	case n > 0:
		return finding(VerdictAdvice, "run the doctor again in a minute", "%.0f recently erased texts are still in the database files", n)
	}
	return finding(VerdictOK, "", "the database files contain no erased text")
}

// noMetrics returns the finding of a check that needs a metric that the server does not expose to
// this command.
func (d *deployment) noMetrics() []Finding {
	refused := (*client.Error)(nil)
	switch {
	case errors.As(d.server.metricsErr, &refused) && refused.Status == http.StatusNotFound:
		return finding(VerdictNotChecked, "set --metrics-listen to the value that serve uses", "the server does not serve /metrics at this address")
	case errors.As(d.server.metricsErr, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return finding(VerdictNotChecked, "use a token with the scope metrics on all ledgers", "the server denies this command access to its metrics")
	case d.server.metricsErr != nil:
		return finding(VerdictNotChecked, "", "%v", d.server.metricsErr)
	}
	return finding(VerdictNotChecked, "use the same version for the server and for this command", "the server does not expose the metric that this check needs")
}
