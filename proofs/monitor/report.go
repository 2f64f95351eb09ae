package monitor

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
)

// Kinds of findings that package audit does not define.
const (
	DamageAnswer  audit.DamageKind = "answer"  // an answer omits, adds, or changes something
	DamageMetrics audit.DamageKind = "metrics" // the metrics contradict the log
	DamageReceipt audit.DamageKind = "receipt" // a receipt or proof is invalid
)

// Finding describes one fault and where it was found.
type Finding struct {
	Kind     audit.DamageKind `json:"kind"`
	Seq      *uint64          `json:"seq,omitempty"`   // seq of the entry
	Tile     string           `json:"tile,omitempty"`  // path of a tile or bundle
	Name     string           `json:"name,omitempty"`  // name of the content or the check
	Query    string           `json:"query,omitempty"` // request path of the question, including query parameters
	Row      string           `json:"row,omitempty"`   // identifies the row of the answer
	Expected string           `json:"expected,omitempty"`
	Got      string           `json:"got,omitempty"`
	Message  string           `json:"message"`
}

func findingOf(d *audit.Damage) Finding {
	return Finding{Kind: d.Kind, Seq: &d.Seq, Tile: d.Tile, Name: d.Name, Message: d.Message}
}

// String returns the kind, the place, and the message of the finding.
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

// Report is the result of one audit.
type Report struct {
	// Clean means that nothing is wrong and the server withheld nothing.
	Clean         bool   `json:"clean"`
	Ledger        string `json:"ledger"`
	Origin        string `json:"origin,omitempty"`
	Size          uint64 `json:"size"`   // number of entries that the checkpoint covers
	Root          string `json:"root"`   // signed root of the tree
	WalkedEntries uint64 `json:"walked"` // number of entries that this audit has checked
	KeyUses       uint64 `json:"key_uses"`
	Time          string `json:"time"` // time at which this audit began
	// EarlierAudits describes how many entries earlier audits have checked, and when. It is absent if
	// this audit has checked all entries.
	EarlierAudits *LastSuccess `json:"earlier,omitempty"`
	// Skipped lists the checks that were not requested, each with the time of its last success if
	// that is known.
	Skipped []SkippedCheck `json:"skipped"`
	// Totals over all entries.
	FirstTime         string            `json:"first_time,omitempty"`
	LastTime          string            `json:"last_time,omitempty"`
	Records           uint64            `json:"records"`
	MismatchedRecords uint64            `json:"mismatched"`  // number of records with a failed check
	Refusals          uint64            `json:"refused"`     // number of refusals in the log
	ChosenKeys        uint64            `json:"chosen_keys"` // number of records whose idempotency key is not derived from their run_id
	States            map[string]uint64 `json:"states,omitempty"`
	// Contents, Redacted, Derived, and Confirmed are set if Options.CheckContent was set.
	Contents         uint64 `json:"contents,omitempty"`
	RedactedRecords  uint64 `json:"redacted,omitempty"`  // number of records whose content has been erased according to the log
	RebuiltRecords   uint64 `json:"derived,omitempty"`   // number of records rebuilt from their content
	ConfirmedRecords uint64 `json:"confirmed,omitempty"` // number of rebuilt records whose digest equals the digest in the event
	// AsOf, Queries, and Rows are set if Options.AnswerChecker was set.
	AsOf     uint64 `json:"as_of,omitempty"`
	Queries  uint64 `json:"queries,omitempty"`
	Rows     uint64 `json:"rows,omitempty"`
	Receipts uint64 `json:"receipts,omitempty"`
	Seed     uint64 `json:"seed,omitempty"` // the seed that determined which receipts were fetched and which questions were asked
	// Unchecked lists requested checks that could not be made.
	Unchecked    []string  `json:"unchecked,omitempty"`
	DataWithheld bool      `json:"-"` // some requested checks were not made because the server withheld data
	Findings     []Finding `json:"findings"`
}

// Names of the checks that an audit can skip, for SkippedCheck.Name.
const (
	ContentCheckName  = "content"
	AnswersCheckName  = "answers"
	ReceiptsCheckName = "receipts"

	checkLog = "log"
)

// SkippedCheck is a check that was not requested.
type SkippedCheck struct {
	Name string       `json:"what"`
	Last *LastSuccess `json:"last,omitempty"` // the check's last success, according to the state
}

// timeOfReport returns the current time in the format of reports.
func timeOfReport() string { return time.Now().UTC().Format(time.RFC3339) }

// newReport returns the report of an audit that has just begun.
func newReport(a *Auditor) *Report {
	r := &Report{Ledger: a.options.Ledger, Time: timeOfReport(), Skipped: []SkippedCheck{}}
	if last, known := a.state.done[checkLog]; known {
		r.EarlierAudits = &last
	}
	for _, what := range [...]string{ContentCheckName, AnswersCheckName, ReceiptsCheckName} {
		switch {
		case slices.Contains(a.impossible, what):
			r.AddWithheld(what + ": a published copy contains only the log; audit the server that writes the ledger")
			continue
		case slices.Contains(a.options.requested(), what):
			continue
		}
		skipped := SkippedCheck{Name: what}
		if last, known := a.state.done[what]; known {
			skipped.Last = &last
		}
		r.Skipped = append(r.Skipped, skipped)
	}
	return r
}

// walked copies the totals from the position that a walk has reached without finding damage.
func (r *Report) walked(at audit.Position) {
	t := at.Tally
	r.FirstTime, r.LastTime = t.FirstTime, at.Time
	r.Records, r.MismatchedRecords, r.Refusals, r.ChosenKeys = t.Records, t.MismatchedRecords, t.Refusals, t.ChosenKeys
	r.States = map[string]uint64{string(record.StateLive): t.LiveRecords(), string(record.StateFailed): t.Failed, string(record.StateStale): t.Stale, string(record.StateQuarantined): t.Quarantined}
}

// rememberDone records in the state which of the optional checks have succeeded.
func (a *Auditor) rememberDone() error {
	now := LastSuccess{a.report.Size, a.report.Time}
	if !a.options.CheckContent && a.options.AnswerChecker == nil && a.options.NumReceipts == 0 {
		return nil
	}
	if a.options.CheckContent {
		a.state.done[ContentCheckName] = now
	}
	if a.options.AnswerChecker != nil {
		a.state.done[AnswersCheckName] = now
	}
	if a.options.NumReceipts > 0 {
		a.state.done[ReceiptsCheckName] = now
	}
	return a.state.save()
}

// MaxFindings is the number of findings at which an audit stops.
const MaxFindings = 100

// AddFinding adds a finding. It returns false if the audit should stop.
func (r *Report) AddFinding(f Finding) bool {
	r.Findings = append(r.Findings, f)
	return len(r.Findings) < MaxFindings
}

// AddWithheld records that the server withholds some data, which makes the audit not clean. what
// describes the data.
func (r *Report) AddWithheld(what string) {
	r.Unchecked, r.DataWithheld = append(r.Unchecked, what), true
}

// signed copies the checkpoint of the log into the report, unless it is zero.
func (r *Report) signed(c proofs.Checkpoint) {
	if c != (proofs.Checkpoint{}) {
		r.Origin, r.Size, r.Root = c.Origin, c.Size, hex.EncodeToString(c.Root[:])
	}
}

// conclude sets Clean, and removes Earlier if this audit has checked all entries.
func (r *Report) conclude() {
	r.Clean = len(r.Findings) == 0 && !r.DataWithheld
	if r.WalkedEntries >= r.Size || r.Size == 0 {
		r.EarlierAudits = nil
	}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
}

// counted formats a number and a noun, such as "2 records". It forms the plural by adding an s.
func counted(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
