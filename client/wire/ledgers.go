package wire

// CreateLedgerRequest is the request to create a ledger. Origin and OnMismatch are optional.
type CreateLedgerRequest struct {
	Name string `json:"name"`
	// Origin is the name of the log in its checkpoints. The default contains the fingerprint of the
	// signing key.
	Origin     string `json:"origin,omitempty"`
	OnMismatch string `json:"on_mismatch,omitempty"` // what to do with wrong hash claims: accept (default) or reject
}

// LedgerList lists the ledgers for which the caller has a grant.
type LedgerList struct {
	Ledgers []LedgerDescription `json:"ledgers"` // sorted by name
}

// LedgerDescription describes a ledger and its current tree.
type LedgerDescription struct {
	Name   string `json:"name"`
	Origin string `json:"origin"` // name of the log in its checkpoints and keys
	// VerifierKey is the newest key that verifies checkpoints. Do not trust it unless you have also
	// obtained it from a trusted source.
	VerifierKey string `json:"verifier_key"`
	Created     Time   `json:"created"`
	Frozen      bool   `json:"frozen"`      // true if the ledger accepts no more writes
	OnMismatch  string `json:"on_mismatch"` // what to do with wrong hash claims: accept or reject
	// LogVisibility is public if anyone can read the log, and private if only callers with a scope can.
	LogVisibility       string `json:"log"`
	UnregisteredSources string `json:"unregistered_sources"` // citations of unregistered sources: accept or reject
	// OTLPContent is the policy for content that arrives over OTLP: keep, or hashes to keep only
	// hashes of it. It is empty if the server is too old to send it.
	OTLPContent   string `json:"otlp_content"`
	TreeSize      uint64 `json:"tree_size"`  // number of events in the ledger
	RootHash      string `json:"root_hash"`  // root hash of the tree of size TreeSize
	Tip           string `json:"tip"`        // event_hash of the last event
	LastEventTime Time   `json:"last_event"` // time of the last event
	// Scopes lists the caller's scopes on the ledger: write, read, content, log, admin, or metrics. A
	// write scope does not mean that the server and the ledger currently accept writes.
	Scopes []string `json:"scopes"`
}

// VisibilityChange makes a log public or private.
type VisibilityChange struct {
	LogVisibility string `json:"log"` // public or private
}

// UnregisteredSourcesChange makes a ledger accept or reject citation sets with sources that
// are not registered.
type UnregisteredSourcesChange struct {
	UnregisteredSources string `json:"unregistered_sources"` // accept or reject
}

// OTLPContentChange makes a ledger keep either the content of generations that arrive over OTLP, or
// only hashes of that content.
type OTLPContentChange struct {
	OTLPContent string `json:"otlp_content"` // keep or hashes
}

// KeyRotationStep asks the server to perform one step of a key rotation.
type KeyRotationStep struct {
	Step string `json:"step"` // rotate: a new key starts to sign; retire: the old key stops signing
}

// PayloadMemberSecret holds the secret that a ledger uses to compute the digests of payload
// members.
type PayloadMemberSecret struct {
	MemberSecret string `json:"member_secret"` // 64 hexadecimal digits
}

// KeyHistory lists the verifier keys of a log, as reported by the server. Use proofs.ParseKeyHistory to
// verify that each key was handed over to the next.
type KeyHistory struct {
	Origin       string        `json:"origin"`       // name of the log in its checkpoints and keys
	VerifierKey  string        `json:"verifier_key"` // the newest key
	ReplacedKeys []ReplacedKey `json:"retired"`      // most recently replaced first
}

// ReplacedKey is a key that has a successor.
type ReplacedKey struct {
	VerifierKey string `json:"verifier_key"`
	// ReplacedAt is the seq of the event that introduces the next key, which starts to sign with this
	// event.
	ReplacedAt uint64 `json:"replaced_at"`
	// SignedUpTo is the largest tree size for which the key's signatures are valid. It is nil while
	// this key and the newest key both sign.
	SignedUpTo *uint64 `json:"signed_up_to"`
	Handover   string  `json:"handover"` // signed note in which the key names the next key
}

// Stats counts a ledger's records, refusals and checks.
type Stats struct {
	AsOf     uint64          `json:"as_of"`     // the counts cover this number of events, from the first
	TreeSize uint64          `json:"tree_size"` // number of events in the ledger; at least AsOf
	Records  map[Kind]uint64 `json:"records"`   // number of records of each kind
	// Refusals counts refusals by reason: mismatch or idempotency_key_conflict.
	Refusals map[string]uint64 `json:"refusals"`
	// Incomplete counts the IPC records that lack a part, by part: input, system_prompt, output,
	// temperature, max_tokens, or seed.
	Incomplete map[string]uint64 `json:"incomplete"`
	Checks     []CheckCount      `json:"checks"` // sorted by kind, field, and result
}

// CheckCount is the number of checks with the same kind of record, the same field, and the same
// result.
type CheckCount struct {
	Kind   Kind        `json:"kind"`  // kind of the checked records
	Field  string      `json:"field"` // name of the check, as in Checks; chunk_hash for all citations
	Result CheckResult `json:"result"`
	Count  uint64      `json:"count"` // number of checks
}

// Snapshot is a copy of the database that a server has made for a backup.
type Snapshot struct {
	Name            string `json:"name"`    // name of its folder in the "snapshots" folder of the data folder
	PendingErasures uint64 `json:"erasing"` // number of erased pieces of content that the copy might still contain
}

// Versions holds the versions of the server and of the Go toolchain that built it.
type Versions struct {
	Server string `json:"version"`
	Go     string `json:"go"`
}

// SignInMethods describes how callers sign in to a server.
type SignInMethods struct {
	Version string `json:"version"` // the server's version
	// Required is true if requests to ledgers need credentials. Requests to public logs never do.
	Required            bool           `json:"required"`
	AcceptsTokens       bool           `json:"tokens"`       // true if the server accepts API tokens
	AcceptsCertificates bool           `json:"certificates"` // true if the server accepts client certificates
	ReadOnly            bool           `json:"read_only"`    // true if the server refuses all writes
	OIDC                []SignInIssuer `json:"oidc"`         // the issuers that a browser can use to sign in
}

// SignInIssuer is an OpenID Connect issuer. A browser uses the authorization code flow with PKCE.
type SignInIssuer struct {
	Issuer   string `json:"issuer"`    // URL of the issuer
	ClientID string `json:"client_id"` // ID of a public client, which has no secret
}

// ProofAnswer is an inclusion or consistency proof (RFC 6962).
type ProofAnswer struct {
	AsOf   uint64   `json:"as_of"`  // size of the tree whose root can be computed from the proof
	Hashes []string `json:"hashes"` // the proof, in the order of RFC 6962
	// Checkpoint is the checkpoint of the tree of size AsOf. It is set only in a consistency proof for
	// the current tree.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// ProducerRow describes what a producer has delivered. Seq is the seq of its latest record.
type ProducerRow struct {
	RowMembers
	ID         string `json:"id"`          // name of the producer
	Records    uint64 `json:"records"`     // number of records that name the producer
	CompleteTo uint64 `json:"complete_to"` // all sequence numbers from 1 to this one have been delivered
	Highest    uint64 `json:"highest"`     // highest sequence number delivered; 0 if none above 0
	Missing    uint64 `json:"missing"`     // number of sequence numbers from 1 to Highest that were not delivered
	Repeated   uint64 `json:"repeated"`    // number of records that repeat a sequence number
}

// ProducerAnswer is a producer with one page of its gaps and one page of its duplicates.
type ProducerAnswer struct {
	IndexedTreeSize
	ProducerRow
	Gaps       []ProducerGap       `json:"gaps"`           // missing sequence numbers, in ascending order
	Duplicates []ProducerDuplicate `json:"duplicates"`     // records that repeat a sequence number, newest first
	Next       string              `json:"next,omitempty"` // cursor of the next page of both gaps and duplicates
}

// ProducerGap is an inclusive range of missing sequence numbers.
type ProducerGap struct {
	From uint64 `json:"from"` // first missing sequence number
	To   uint64 `json:"to"`   // last missing sequence number
}

// ProducerDuplicate is a record that repeats a sequence number of its producer.
type ProducerDuplicate struct {
	RowMembers
	ProducerSeq uint64 `json:"producer_seq"` // the repeated sequence number
	FirstSeq    uint64 `json:"first_seq"`    // seq of the first record with this sequence number
}

// IndexPart is a part of a server's index of a ledger. The rows are sorted by key.
type IndexPart struct {
	AsOf     uint64 `json:"as_of"`     // the number of events that the index covers
	RootHash string `json:"root_hash"` // root hash of the tree of size AsOf
	// Layout identifies the form of the rows. Servers with different layouts have different rows.
	Layout string `json:"layout"`
	Digest string `json:"digest"` // SHA-256 of Rows; present even if Rows is absent
	// Rows holds each key and each value after its length as a varint. It is nil if the request asked
	// only for the digest.
	Rows []byte `json:"rows,omitempty"`
	Next string `json:"next,omitempty"` // cursor of the next part; absent in the last part
}
