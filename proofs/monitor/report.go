package monitor

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// Kinds of findings beside the damage of the log itself.
const (
	KindAnswer  audit.Kind = "answer"  // an answer omits, adds, or changes something
	KindMetrics audit.Kind = "metrics" // the metrics do not follow from the log
	KindReceipt audit.Kind = "receipt" // a receipt or proof is invalid
)

// Exit is the exit code for one kind of finding. The codes of verify come before them.
type Exit struct {
	Code    int
	Kind    audit.Kind
	Meaning string
}

// Exits returns all kinds in the order of their codes.
func Exits() []Exit {
	return []Exit{
		{30, audit.KindSignature, "the checkpoint is not signed by the log's key"},
		{31, audit.KindCheckpoint, "the checkpoint is malformed, or of another log"},
		{32, audit.KindRollback, "the log is shorter than it was: entries were taken back"},
		{33, audit.KindFork, "the log is another one than it was, or than others saw"},
		{34, audit.KindTruncated, "entries that were signed are not served"},
		{35, audit.KindEntry, "an entry is not the one that was signed"},
		{36, audit.KindEvent, "what was signed is no event as it has to be"},
		{37, audit.KindCheck, "an event says of its record what does not follow from it"},
		{38, audit.KindChain, "an event does not link to the one before it"},
		{39, audit.KindTile, "a hash tile is not that of the entries"},
		{40, audit.KindRoot, "entries and tiles do not lead to the signed root"},
		{41, audit.KindKey, "an idempotency key is claimed twice, or a refusal for one is wrong"},
		{42, audit.KindRedaction, "an event redacts what it cannot, or what is erased no event redacts"},
		{43, audit.KindContent, "content is missing, altered, or served though it was redacted"},
		{44, KindAnswer, "an answer leaves something out, adds or changes something"},
		{45, KindMetrics, "the metrics are not those of the log"},
		{46, KindReceipt, "a receipt or a proof does not hold"},
	}
}

// ExitsHelp returns the table of exit codes for the help.
func ExitsHelp() string {
	var b strings.Builder
	for _, e := range Exits() {
		fmt.Fprintf(&b, "  %2d  %-10s  %s\n", e.Code, e.Kind, e.Meaning)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Finding is one thing that is wrong, and its place.
type Finding struct {
	Kind     audit.Kind `json:"kind"`
	Seq      *uint64    `json:"seq,omitempty"`   // of the entry
	Tile     string     `json:"tile,omitempty"`  // path of a tile or bundle
	Name     string     `json:"name,omitempty"`  // of content, or of a check
	Query    string     `json:"query,omitempty"` // path of the question
	Row      string     `json:"row,omitempty"`   // of the answer
	Expected string     `json:"expected,omitempty"`
	Got      string     `json:"got,omitempty"`
	Message  string     `json:"message"`
}

func findingOf(d *audit.Damage) Finding {
	return Finding{Kind: d.Kind, Seq: &d.Seq, Tile: d.Tile, Name: d.Name, Message: d.Message}
}

// String returns kind, place, and message.
func (f Finding) String() string {
	if f.Query == "" {
		d := audit.Damage{Kind: f.Kind, Tile: f.Tile, Name: f.Name, Message: f.Message}
		if f.Seq != nil {
			d.Seq = *f.Seq
		}
		return d.Error()
	}
	place := f.Query
	if f.Row != "" {
		place += ", " + f.Row
	}
	text := fmt.Sprintf("%s: %s: %s", f.Kind, place, f.Message)
	if f.Expected != "" || f.Got != "" {
		text += fmt.Sprintf("\n    expected %s\n    got      %s", cmp.Or(f.Expected, "nothing"), cmp.Or(f.Got, "nothing"))
	}
	return text
}

// Report is the outcome of one audit.
type Report struct {
	Clean   bool   `json:"clean"`
	Code    int    `json:"code"` // the exit code
	Ledger  string `json:"ledger"`
	Origin  string `json:"origin,omitempty"`
	Size    uint64 `json:"size"`   // entries under the checkpoint
	Root    string `json:"root"`   // signed root of the tree
	Walked  uint64 `json:"walked"` // entries that this audit has checked
	KeyUses uint64 `json:"key_uses"`
	Time    string `json:"time"` // when this audit began
	// Earlier says which entries earlier audits have checked, and when. It is absent if this
	// audit has checked all.
	Earlier *CheckedAt `json:"earlier,omitempty"`
	// Skipped lists the checks that were not requested, each with its last success if known.
	Skipped []SkippedCheck `json:"skipped"`
	// Totals over all entries.
	FirstTime  string            `json:"first_time,omitempty"`
	LastTime   string            `json:"last_time,omitempty"`
	Records    uint64            `json:"records"`
	Mismatched uint64            `json:"mismatched"`  // records with a claim that does not match
	Refused    uint64            `json:"refused"`     // refusals in the log
	ChosenKeys uint64            `json:"chosen_keys"` // records whose idempotency key does not follow from their run_id
	States     map[string]uint64 `json:"states,omitempty"`
	// Set if content was requested.
	Contents  uint64 `json:"contents,omitempty"`
	Redacted  uint64 `json:"redacted,omitempty"`  // records whose content the log says is erased
	Derived   uint64 `json:"derived,omitempty"`   // records recomputed from their content
	Confirmed uint64 `json:"confirmed,omitempty"` // those whose digest was confirmed
	// Set if answers were requested.
	AsOf     uint64 `json:"as_of,omitempty"`
	Queries  uint64 `json:"queries,omitempty"`
	Rows     uint64 `json:"rows,omitempty"`
	Receipts uint64 `json:"receipts,omitempty"`
	Seed     uint64 `json:"seed,omitempty"` // chose the questions and their order
	// Unchecked lists requested checks that could not be made.
	Unchecked []string  `json:"unchecked,omitempty"`
	hidden    bool      // the server withheld some of them
	Findings  []Finding `json:"findings"`
}

// The names of checks that an audit may skip.
const (
	checkedLog      = "log"
	CheckedContent  = "content"
	CheckedAnswers  = "answers"
	CheckedReceipts = "receipts"
)

// skippedFlags are the flags that request a check.
var skippedFlags = map[string]string{CheckedContent: "--content", CheckedAnswers: "--replay-index", CheckedReceipts: "--receipts N"}

// SkippedCheck is a check that an audit has not made.
type SkippedCheck struct {
	What string     `json:"what"`
	Last *CheckedAt `json:"last,omitempty"`
}

// timeOfReport returns the current time as reports print it.
func timeOfReport() string { return time.Now().UTC().Format(time.RFC3339) }

// newAuditReport makes the report of an audit that begins.
func newAuditReport(a *Auditor) *Report {
	r := &Report{Ledger: a.Ledger, Time: timeOfReport(), Skipped: []SkippedCheck{}}
	if last, known := a.Memory.done[checkedLog]; known {
		r.Earlier = &last
	}
	for _, check := range [...]struct {
		what string
		done bool
	}{{CheckedContent, a.Content}, {CheckedAnswers, a.ReplayIndex}, {CheckedReceipts, a.Receipts > 0}} {
		if check.done {
			continue
		}
		skipped := SkippedCheck{What: check.what}
		if last, known := a.Memory.done[check.what]; known {
			skipped.Last = &last
		}
		r.Skipped = append(r.Skipped, skipped)
	}
	return r
}

// walked records the totals over the entries, all of which are valid.
func (r *Report) walked(at audit.Position) {
	t := at.Tally
	r.FirstTime, r.LastTime = t.First, at.Time
	r.Records, r.Mismatched, r.Refused, r.ChosenKeys = t.Records, t.Mismatched, t.Refused, t.ChosenKeys
	r.States = map[string]uint64{string(record.Live): t.Live(), string(record.Failed): t.Failed, string(record.Stale): t.Stale, string(record.Quarantined): t.Quarantined}
}

// rememberDone stores in the state which checks beside the log have succeeded.
func (a *Auditor) rememberDone() error {
	now := CheckedAt{a.Report.Size, a.Report.Time}
	if !a.Content && !a.ReplayIndex && a.Receipts == 0 {
		return nil
	}
	if a.Content {
		a.Memory.done[CheckedContent] = now
	}
	if a.ReplayIndex {
		a.Memory.done[CheckedAnswers] = now
	}
	if a.Receipts > 0 {
		a.Memory.done[CheckedReceipts] = now
	}
	return a.Memory.Save()
}

// MaxFindings is the number of findings after which an audit stops.
const MaxFindings = 100

// Found adds a finding. It returns false if the audit should stop.
func (r *Report) Found(f Finding) bool {
	r.Findings = append(r.Findings, f)
	return len(r.Findings) < MaxFindings
}

// withheld records what the server does not show; the audit is then not clean.
func (r *Report) withheld(what string) {
	r.Unchecked, r.hidden = append(r.Unchecked, what), true
}

// signed records the checkpoint of the log.
func (r *Report) signed(c proofs.Checkpoint) {
	if c != (proofs.Checkpoint{}) {
		r.Origin, r.Size, r.Root = c.Origin, c.Size, hex.EncodeToString(c.Root[:])
	}
}

// Conclude sets the outcome. The first finding determines the exit code.
func (r *Report) Conclude() {
	r.Clean = len(r.Findings) == 0 && !r.hidden
	if r.Walked >= r.Size || r.Size == 0 {
		r.Earlier = nil
	}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	if len(r.Findings) == 0 {
		if r.hidden {
			r.Code = cli.ExitWithheld
		}
		return
	}
	for _, e := range Exits() {
		if e.Kind == r.Findings[0].Kind {
			r.Code = e.Code
		}
	}
}

// print writes the report: as text, as JSON, or as JSON on one line.
func (r *Report) print(c *cli.Console, asJSON, lines bool) error {
	switch {
	case asJSON && lines:
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return cli.PrintJSONLine(c.Out, text)
	case asJSON:
		return cli.WriteJSON(c, r)
	}
	_, err := fmt.Fprint(c.Out, r)
	return err
}

// String returns the report as text.
func (r *Report) String() string {
	var b strings.Builder
	clean := "clean"
	switch {
	case r.hidden:
		clean = "NOT CHECKED in part"
	case len(r.Unchecked) > 0:
		clean = "clean but for what is NOT CHECKED"
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: DAMAGED: %s\n", r.Ledger, f)
	}
	switch {
	case len(r.Findings) > 0:
		fmt.Fprintf(&b, "  what now  %s\n", whatNow(r.Findings[0].Kind))
	case r.Earlier == nil:
		fmt.Fprintf(&b, "%s: %s: %s, %d uses of idempotency keys\n", r.Ledger, clean, cli.Counted(r.Size, "event"), r.KeyUses)
	default:
		fmt.Fprintf(&b, "%s: %s: %s checked now; %d of %s were checked before, last at %s, and were not fetched again\n", r.Ledger, clean,
			cli.Counted(r.Walked, "new event"), r.Size-r.Walked, cli.Counted(r.Size, "event"), r.Earlier.Time)
	}
	if r.Clean && r.States != nil {
		fmt.Fprintf(&b, "  period    %s to %s\n", r.FirstTime, r.LastTime)
		fmt.Fprintf(&b, "  records   %d, %d of them with claims that fail, %d with an idempotency key that is not that of their run_id; %d refused\n", r.Records, r.Mismatched, r.ChosenKeys, r.Refused)
		fmt.Fprintf(&b, "  states    %d live, %d failed, %d stale, %d quarantined\n", r.States["live"], r.States["failed"], r.States["stale"], r.States["quarantined"])
	}
	if r.Contents+r.Redacted > 0 {
		fmt.Fprintf(&b, "  content   %d pieces, %d records recomputed, %d of them with their digest confirmed; %d redacted\n", r.Contents, r.Derived, r.Confirmed, r.Redacted)
	}
	if r.Queries > 0 {
		fmt.Fprintf(&b, "  answers   %d queries with %d rows at size %d\n", r.Queries, r.Rows, r.AsOf)
	}
	if r.Receipts > 0 {
		fmt.Fprintf(&b, "  receipts  %d\n", r.Receipts)
	}
	if r.Seed > 0 {
		fmt.Fprintf(&b, "  seed      %d; --seed %d asks the same again\n", r.Seed, r.Seed)
	}
	for _, skipped := range r.Skipped {
		last := ""
		if skipped.Last != nil {
			last = fmt.Sprintf("; last checked at %s, when the log had %s", skipped.Last.Time, cli.Counted(skipped.Last.Size, "event"))
		}
		fmt.Fprintf(&b, "  skipped   %s (ask for it with %s)%s\n", skipped.What, skippedFlags[skipped.What], last)
	}
	for _, what := range r.Unchecked {
		fmt.Fprintf(&b, "  NOT CHECKED: %s\n", what)
	}
	if r.Root != "" {
		fmt.Fprintf(&b, "  log       %s\n  root      %s at size %d\n", r.Origin, r.Root, r.Size)
	}
	return b.String()
}

// auditDamage returns the damage that an error reports; nil if it reports none.
func auditDamage(err error) *audit.Damage {
	var d *audit.Damage
	if errors.As(err, &d) {
		return d
	}
	return nil
}
