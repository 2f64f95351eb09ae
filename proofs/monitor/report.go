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
	DamageKindAnswer  audit.DamageKind = "answer"  // an answer omits, adds, or changes something
	DamageKindMetrics audit.DamageKind = "metrics" // the metrics contradict the log
	DamageKindReceipt audit.DamageKind = "receipt" // a receipt or proof is invalid
)

// Finding describes one fault and where it was found.
type Finding struct {
	Kind     audit.DamageKind `json:"kind"`
	Seq      *uint64          `json:"seq,omitempty"`      // seq of the entry
	TilePath string           `json:"tile,omitempty"`     // path of a tile or bundle
	Name     string           `json:"name,omitempty"`     // name of the content or the check
	Query    string           `json:"query,omitempty"`    // request path of the question, including query parameters
	Row      string           `json:"row,omitempty"`      // identifies the row of the answer
	Expected string           `json:"expected,omitempty"` // value that follows from the log; empty if there is none
	Got      string           `json:"got,omitempty"`      // value in the answer; empty if there is none
	Message  string           `json:"message"`            // what is wrong, in words
}

func findingOf(d *audit.Damage) Finding {
	return Finding{Kind: d.Kind, Seq: &d.Seq, TilePath: d.TilePath, Name: d.Name, Message: d.Message}
}

// String returns the kind, the place, and the message of the finding. Only lines with the expected value
// and the value in the answer can follow the first line.
func (f Finding) String() string {
	if f.Query == "" {
		d := audit.Damage{Kind: f.Kind, TilePath: f.TilePath, Name: f.Name, Message: f.Message}
		if f.Seq != nil {
			d.Seq = *f.Seq
		}
		return d.Error()
	}
	place := f.Query
	if f.Row != "" {
		place += ", " + f.Row
	}
	text := audit.OneLine(fmt.Sprintf("%s: %s: %s", f.Kind, place, f.Message))
	if f.Expected != "" || f.Got != "" {
		text += fmt.Sprintf("\n    expected %s\n    got      %s", audit.OneLine(cmp.Or(f.Expected, "nothing")), audit.OneLine(cmp.Or(f.Got, "nothing")))
	}
	return text
}

// Report is the result of one audit.
type Report struct {
	// Clean means that nothing is wrong and the server withheld nothing.
	Clean         bool   `json:"clean"`
	Ledger        string `json:"ledger"`           // name of the ledger
	Origin        string `json:"origin,omitempty"` // origin of the log's checkpoints
	Size          uint64 `json:"size"`             // number of entries that the checkpoint covers
	Root          string `json:"root"`             // signed root of the tree
	WalkedEntries uint64 `json:"walked"`           // number of entries that this audit has checked
	KeyUses       uint64 `json:"key_uses"`         // number of valid uses of idempotency keys in these entries
	StartTime     string `json:"time"`             // time at which this audit began
	// PreviousSuccess describes how many entries earlier audits have checked, and when. It is
	// absent if this audit has checked all entries.
	PreviousSuccess *LastSuccess `json:"earlier,omitempty"`
	// SkippedChecks lists the checks that were not requested, each with the time of its last
	// success if that is known.
	SkippedChecks []SkippedCheck `json:"skipped"`
	// Totals over all entries.
	FirstEventTime    string            `json:"first_time,omitempty"` // time of the first event in the log
	LastEventTime     string            `json:"last_time,omitempty"`  // time of the last event in the log
	Records           uint64            `json:"records"`              // number of records in the log
	MismatchedRecords uint64            `json:"mismatched"`           // number of records with a failed check
	Refusals          uint64            `json:"refused"`              // number of refusals in the log
	ChosenKeyCount    uint64            `json:"chosen_keys"`          // number of records whose idempotency key is not derived from their run_id
	RecordsByState    map[string]uint64 `json:"states,omitempty"`     // number of records in each state
	// ContentCount is the number of valid pieces of content. It and the next three fields are set
	// only if Options.CheckContent was set.
	ContentCount     uint64 `json:"contents,omitempty"`
	RedactedRecords  uint64 `json:"redacted,omitempty"`  // number of records whose content has been erased according to the log
	RebuiltRecords   uint64 `json:"derived,omitempty"`   // number of records rebuilt from their content
	ConfirmedRecords uint64 `json:"confirmed,omitempty"` // number of rebuilt records whose digest equals the digest in the event
	// AnswersAsOfSize is the size of the log at which answers were compared. It and the next two
	// fields are set only if Options.AnswerChecker was set.
	AnswersAsOfSize uint64 `json:"as_of,omitempty"`
	Queries         uint64 `json:"queries,omitempty"`  // number of questions whose answers were compared with the log
	Rows            uint64 `json:"rows,omitempty"`     // total number of rows in these answers
	Receipts        uint64 `json:"receipts,omitempty"` // number of receipts that the audit fetched and checked
	Seed            uint64 `json:"seed,omitempty"`     // the seed that determined which receipts were fetched and which questions were asked
	// UnperformedChecks lists requested checks that could not be made.
	UnperformedChecks []string `json:"unchecked,omitempty"`
	DataWithheld      bool     `json:"-"` // some requested checks were not made because the server withheld data
	// Findings lists the faults that were found, at most MaxFindings.
	Findings []Finding `json:"findings"`
}

// Names of the checks that an audit can skip, for SkippedCheck.Name.
const (
	ContentCheckName  = "content"  // fetches all content and rebuilds every record from it
	AnswersCheckName  = "answers"  // compares the server's answers with the log
	ReceiptsCheckName = "receipts" // fetches and verifies receipts

	checkLog = "log"
)

// SkippedCheck is a check that was not requested.
type SkippedCheck struct {
	Name        string       `json:"what"`           // ContentCheckName, AnswersCheckName, or ReceiptsCheckName
	LastSuccess *LastSuccess `json:"last,omitempty"` // the check's last success, according to the state
}

// timeOfReport returns the current time in the format of reports.
func timeOfReport() string { return time.Now().UTC().Format(time.RFC3339) }

// newReport returns the report of an audit that has just begun.
func newReport(a *Auditor) *Report {
	r := &Report{Ledger: a.options.Ledger, StartTime: timeOfReport(), SkippedChecks: []SkippedCheck{}}
	if last, known := a.state.done[checkLog]; known {
		r.PreviousSuccess = &last
	}
	for _, what := range [...]string{ContentCheckName, AnswersCheckName, ReceiptsCheckName} {
		switch {
		case slices.Contains(a.impossible, what):
			r.AddWithheldData(what + ": a published copy contains only the log; audit the server that writes the ledger")
			continue
		case slices.Contains(a.options.requested(), what):
			continue
		}
		skipped := SkippedCheck{Name: what}
		if last, known := a.state.done[what]; known {
			skipped.LastSuccess = &last
		}
		r.SkippedChecks = append(r.SkippedChecks, skipped)
	}
	return r
}

// walked copies the totals from the position that a walk has reached without finding damage.
func (r *Report) walked(at audit.Position) {
	t := at.Tally
	r.FirstEventTime, r.LastEventTime = t.FirstEventTime, at.Time
	r.Records, r.MismatchedRecords, r.Refusals, r.ChosenKeyCount = t.Records, t.MismatchedRecords, t.Refusals, t.ChosenKeyCount
	r.RecordsByState = map[string]uint64{string(record.StateLive): t.LiveRecords(), string(record.StateFailed): t.FailedRecords, string(record.StateStale): t.StaleRecords, string(record.StateQuarantined): t.QuarantinedRecords}
}

// rememberDone records in the state which of the optional checks have succeeded.
func (a *Auditor) rememberDone() error {
	now := LastSuccess{a.report.Size, a.report.StartTime}
	if !a.options.CheckContent && a.options.AnswerChecker == nil && a.options.NumReceipts == 0 {
		return nil
	}
	if a.options.CheckContent {
		a.state.done[ContentCheckName] = LastSuccess{a.contentSize, a.report.StartTime}
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

// AddWithheldData records that the server withholds some data, which makes the audit not clean.
// what describes the data.
func (r *Report) AddWithheldData(what string) {
	r.UnperformedChecks, r.DataWithheld = append(r.UnperformedChecks, what), true
}

// signed copies the checkpoint of the log into the report, unless it is zero.
func (r *Report) signed(c proofs.Checkpoint) {
	if c != (proofs.Checkpoint{}) {
		r.Origin, r.Size, r.Root = c.Origin, c.Size, hex.EncodeToString(c.Root[:])
	}
}

// conclude sets Clean. It removes PreviousSuccess if this audit has checked all entries.
func (r *Report) conclude() {
	r.Clean = len(r.Findings) == 0 && !r.DataWithheld
	if r.WalkedEntries >= r.Size || r.Size == 0 {
		r.PreviousSuccess = nil
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
