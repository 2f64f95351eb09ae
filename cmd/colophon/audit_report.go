package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"colophon/internal/cli"
	"colophon/proofs/audit"
	"colophon/proofs/monitor"
)

// auditExit is the exit code of the audit command for one kind of finding. All codes are higher
// than the exit codes of the verify command.
type auditExit struct {
	code    int
	kind    audit.DamageKind
	meaning string
}

// auditExits lists all kinds of findings, sorted by exit code.
var auditExits = [...]auditExit{
	{30, audit.DamageKindSignature, "the checkpoint is not signed by the log's key"},
	{31, audit.DamageKindCheckpoint, "the checkpoint is malformed, or belongs to another log"},
	{32, audit.DamageKindRollback, "the log is shorter than before: entries were removed"},
	{33, audit.DamageKindFork, "the log differs from the one seen before, or from the one that others saw"},
	{34, audit.DamageKindTruncation, "the server does not serve all signed entries"},
	{35, audit.DamageKindEntry, "an entry is not the one that was signed"},
	{36, audit.DamageKindEvent, "a signed entry is not a valid event"},
	{37, audit.DamageKindCheck, "what an event states about its record is wrong"},
	{38, audit.DamageKindChain, "an event does not link to the previous event"},
	{39, audit.DamageKindTile, "a hash tile does not match the entries"},
	{40, audit.DamageKindRoot, "the entries and tiles do not hash to the signed root"},
	{41, audit.DamageKindKey, "an idempotency key is claimed twice, or a recorded refusal of a key is wrong"},
	{42, audit.DamageKindRedaction, "an event redacts a record that it must not redact, or content is erased without a redaction"},
	{43, audit.DamageKindContent, "content is missing, altered, or served though it was redacted"},
	{44, monitor.DamageKindAnswer, "an answer omits, adds, or changes something"},
	{45, monitor.DamageKindMetrics, "the metrics do not match the log"},
	{46, monitor.DamageKindReceipt, "a receipt or a proof is not valid"},
}

// auditExitsHelp returns the table of exit codes for the help.
func auditExitsHelp() string {
	var b strings.Builder
	for _, e := range auditExits {
		fmt.Fprintf(&b, "  %2d  %-10s  %s\n", e.code, e.kind, e.meaning)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// auditReport adds the exit code to a monitor.Report. With --json, audit prints it as JSON.
type auditReport struct {
	Clean bool `json:"clean"`
	Code  int  `json:"code"`
	*monitor.Report
}

// newAuditReport adds the exit code to a report. If there are findings, the first one determines
// the code.
func newAuditReport(r *monitor.Report) auditReport {
	a := auditReport{Clean: r.Clean, Report: r}
	switch {
	case len(r.Findings) > 0:
		for _, e := range auditExits {
			if e.kind == r.Findings[0].Kind {
				a.Code = e.code
			}
		}
	case r.DataWithheld:
		a.Code = cli.ExitWithheld
	}
	for i, what := range r.UnperformedChecks {
		if strings.HasPrefix(what, "metrics: ") {
			r.UnperformedChecks[i] += " (if the server has a separate address for them, specify it with --metrics-url)"
		}
	}
	return a
}

// print writes the report as text or, if asJSON is set, as JSON. With both asJSON and lines, the
// JSON is on a single line.
func (r auditReport) print(c *cli.Console, asJSON, lines bool) error {
	switch {
	case asJSON && lines:
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return cli.PrintJSONLine(c.Out, text)
	case asJSON:
		return cli.PrintAsJSON(c, r)
	}
	_, err := fmt.Fprint(c.Out, r)
	return err
}

// exit returns an error with the exit code, or nil if the report is clean.
func (r auditReport) exit() error {
	if r.Clean {
		return nil
	}
	return &cli.ExitError{Code: r.Code}
}

// auditFlagOf maps each optional check to the flag that enables it.
var auditFlagOf = map[string]string{monitor.ContentCheckName: "--content", monitor.AnswersCheckName: "--replay-index", monitor.ReceiptsCheckName: "--receipts N"}

func (r auditReport) String() string {
	var b strings.Builder
	clean := "clean"
	switch {
	case r.DataWithheld:
		clean = "NOT CHECKED in part"
	case len(r.UnperformedChecks) > 0:
		clean = "clean, except for what is NOT CHECKED"
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: DAMAGED: %s\n", r.Ledger, f)
	}
	switch {
	case len(r.Findings) > 0:
		fmt.Fprintf(&b, "  what now  %s\n", auditAdvice(r.Findings[0].Kind))
	case r.PreviousSuccess == nil:
		fmt.Fprintf(&b, "%s: %s: %s, %d uses of idempotency keys\n", r.Ledger, clean, cli.FormatCount(r.Size, "event"), r.KeyUses)
	default:
		fmt.Fprintf(&b, "%s: %s: %s checked now; %d of %s were checked before, last at %s, and were not fetched again\n", r.Ledger, clean,
			cli.FormatCount(r.WalkedEntries, "new event"), r.Size-r.WalkedEntries, cli.FormatCount(r.Size, "event"), r.PreviousSuccess.Time)
	}
	if r.Clean && r.RecordsByState != nil {
		fmt.Fprintf(&b, "  period    %s to %s\n", r.FirstEventTime, r.LastEventTime)
		fmt.Fprintf(&b, "  records   %d, %d of them with claims that fail, %d with an idempotency key other than their run_id; %d refused\n", r.Records, r.MismatchedRecords, r.ChosenKeyCount, r.Refusals)
		fmt.Fprintf(&b, "  states    %d live, %d failed, %d stale, %d quarantined\n", r.RecordsByState["live"], r.RecordsByState["failed"], r.RecordsByState["stale"], r.RecordsByState["quarantined"])
	}
	if r.ContentCount+r.RedactedRecords > 0 {
		fmt.Fprintf(&b, "  content   %d pieces, %d records recomputed, %d of them with their digest confirmed; %d redacted\n", r.ContentCount, r.RebuiltRecords, r.ConfirmedRecords, r.RedactedRecords)
	}
	if r.Queries > 0 {
		fmt.Fprintf(&b, "  answers   %d queries with %d rows at size %d\n", r.Queries, r.Rows, r.AnswersAsOfSize)
	}
	if r.Receipts > 0 {
		fmt.Fprintf(&b, "  receipts  %d\n", r.Receipts)
	}
	if r.Seed > 0 {
		fmt.Fprintf(&b, "  seed      %d; --seed %d repeats the same choices\n", r.Seed, r.Seed)
	}
	for _, skipped := range r.SkippedChecks {
		last := ""
		if skipped.LastSuccess != nil {
			last = fmt.Sprintf("; last checked at %s, when the log had %s", skipped.LastSuccess.Time, cli.FormatCount(skipped.LastSuccess.LogSize, "event"))
		}
		fmt.Fprintf(&b, "  skipped   %s (%s checks it)%s\n", skipped.Name, auditFlagOf[skipped.Name], last)
	}
	for _, what := range r.UnperformedChecks {
		fmt.Fprintf(&b, "  NOT CHECKED: %s\n", what)
	}
	if r.Root != "" {
		fmt.Fprintf(&b, "  log       %s\n  root      %s at size %d\n", r.Origin, r.Root, r.Size)
	}
	return b.String()
}

// auditAdvice returns what to do about a finding of the given kind.
func auditAdvice(kind audit.DamageKind) string {
	switch kind {
	case audit.DamageKindSignature, audit.DamageKindCheckpoint:
		return `check that the URL and the key belong to the same ledger, and that the key comes from a source
            that you trust; if so, this server does not have the ledger's key: do not rely on its answers`
	case audit.DamageKindRollback, audit.DamageKindFork:
		return `keep the state and the files of --against: together with the checkpoint that the server shows now,
            they prove the fault to anyone who has the key; ask the operator which of the two logs is theirs`
	case audit.DamageKindTruncation, audit.DamageKindEntry, audit.DamageKindTile:
		return `the server does not show what it has signed, because of damage or on purpose: audit again without
            a proxy; if the finding remains, the operator has to run colophon fsck and restore a backup`
	case audit.DamageKindContent, audit.DamageKindRedaction:
		return `content to which the log commits is missing or different: the operator has to run
            colophon fsck, which distinguishes lost content from withheld content`
	case monitor.DamageKindAnswer, monitor.DamageKindMetrics, monitor.DamageKindReceipt:
		return `the log is valid, but the server's answers do not follow from it: use a server of the same
            version as this program; if the finding remains, the operator has to run colophon reindex
            and colophon fsck`
	}
	return `the ledger has signed something that cannot be valid: keep the checkpoint and the entries
            around the finding (GET /events?from=) as evidence, and do not rely on later records`
}
