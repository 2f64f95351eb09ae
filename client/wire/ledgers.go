package wire

// NewLedger asks for a ledger. Origin and OnMismatch have defaults.
type NewLedger struct {
	Name       string `json:"name"`
	Origin     string `json:"origin,omitempty"`
	OnMismatch string `json:"on_mismatch,omitempty"` // accept (default) or reject
}

// Ledgers lists the ledgers that the caller has a grant on.
type Ledgers struct {
	Ledgers []LedgerDescription `json:"ledgers"`
}

// LedgerDescription describes a ledger.
type LedgerDescription struct {
	Name        string `json:"name"`
	Origin      string `json:"origin"`
	VerifierKey string `json:"verifier_key"` // the newest; trust it only if it came by a way that you trust
	Created     Time   `json:"created"`
	Frozen      bool   `json:"frozen"`      // it takes no more writes
	OnMismatch  string `json:"on_mismatch"` // accept or reject
	Log         string `json:"log"`         // public or private
	// UnregisteredSources says what becomes of citation sets with sources that are not registered:
	// accept or reject.
	UnregisteredSources string `json:"unregistered_sources"`
	TreeSize            uint64 `json:"tree_size"`
	RootHash            string `json:"root_hash"`
	Tip                 string `json:"tip"` // event_hash of the last event
	LastEvent           Time   `json:"last_event"`
}

// VisibilityChange publishes a log or makes it private.
type VisibilityChange struct {
	Log string `json:"log"` // public or private
}

// UnregisteredSourcesChange says what becomes of citation sets with sources that are not registered.
type UnregisteredSourcesChange struct {
	UnregisteredSources string `json:"unregistered_sources"` // accept or reject
}

// KeyStep is one step of a change of signing keys.
type KeyStep struct {
	Step string `json:"step"` // rotate or retire
}

// MemberSecret is the secret with which a ledger makes the digests of payload members.
type MemberSecret struct {
	MemberSecret string `json:"member_secret"` // 64 hexadecimal digits
}

// LogKey lists the verifier keys of a log, as the server states them. proofs.ParseLogKey checks the
// handovers.
type LogKey struct {
	Origin      string        `json:"origin"`
	VerifierKey string        `json:"verifier_key"` // the newest
	Retired     []ReplacedKey `json:"retired"`      // the last that was replaced first
}

// ReplacedKey is a key that another follows.
type ReplacedKey struct {
	VerifierKey string  `json:"verifier_key"`
	ReplacedAt  uint64  `json:"replaced_at"`  // the event that introduces the next key; from there on, that key signs too
	SignedUpTo  *uint64 `json:"signed_up_to"` // tree size; nil while both keys sign
	Handover    string  `json:"handover"`     // signed note that names the next key
}

// Stats counts the events of a ledger.
type Stats struct {
	AsOf       uint64            `json:"as_of"`
	TreeSize   uint64            `json:"tree_size"`
	Records    map[Kind]uint64   `json:"records"`
	Refusals   map[string]uint64 `json:"refusals"`   // by reason
	Incomplete map[string]uint64 `json:"incomplete"` // IPC records, by what they lack
	Checks     []CheckCount      `json:"checks"`
}

// CheckCount is the number of checks with one result.
type CheckCount struct {
	Kind   Kind   `json:"kind"`
	Field  string `json:"field"`
	Result Result `json:"result"`
	Count  uint64 `json:"count"`
}

// Snapshot is a copy of the database that a server has made for a backup.
type Snapshot struct {
	Name    string `json:"name"`    // of its folder in snapshots of the data folder
	Erasing uint64 `json:"erasing"` // pieces of erased content that its files may still have
}

// Version is the server's version and that of Go.
type Version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

// HashList is an inclusion or consistency proof (RFC 6962).
type HashList struct {
	AsOf       uint64   `json:"as_of"` // size of the tree that the proof leads to
	Hashes     []string `json:"hashes"`
	Checkpoint string   `json:"checkpoint,omitempty"` // of that tree, if it is the head's and the answer names it
}

// ProducerRow is what a producer has delivered. Its Seq is that of the latest record.
type ProducerRow struct {
	Row
	ID         string `json:"id"`
	Records    uint64 `json:"records"`
	CompleteTo uint64 `json:"complete_to"` // no number up to here is missing
	Highest    uint64 `json:"highest"`
	Missing    uint64 `json:"missing"`
	Repeated   uint64 `json:"repeated"`
}

// ProducerAnswer is a producer with one page of its gaps and one page of its duplicates.
type ProducerAnswer struct {
	View
	ProducerRow
	Gaps       []ProducerGap       `json:"gaps"`
	Duplicates []ProducerDuplicate `json:"duplicates"`
	Next       string              `json:"next,omitempty"` // cursor of the next page of both
}

// ProducerGap is numbers that did not come.
type ProducerGap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// ProducerDuplicate is a record that repeats a number.
type ProducerDuplicate struct {
	Row
	ProducerSeq uint64 `json:"producer_seq"`
	FirstSeq    uint64 `json:"first_seq"` // the first record with the number
}
