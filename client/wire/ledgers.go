package wire

// CreateLedgerRequest is the request to create a ledger. Origin and OnMismatch are optional.
type CreateLedgerRequest struct {
	Name       string `json:"name"`
	Origin     string `json:"origin,omitempty"`
	OnMismatch string `json:"on_mismatch,omitempty"` // what to do with wrong hash claims: accept (default) or reject
}

// LedgerList lists the ledgers for which the caller has a grant.
type LedgerList struct {
	Ledgers []LedgerDescription `json:"ledgers"`
}

// LedgerDescription describes a ledger and its current tree.
type LedgerDescription struct {
	Name                string `json:"name"`
	Origin              string `json:"origin"`
	VerifierKey         string `json:"verifier_key"` // the newest key; do not trust it unless you have also obtained it from a trusted source
	Created             Time   `json:"created"`
	Frozen              bool   `json:"frozen"`               // the ledger accepts no more writes
	OnMismatch          string `json:"on_mismatch"`          // records that claim a wrong hash: accept or reject
	LogVisibility       string `json:"log"`                  // public or private
	UnregisteredSources string `json:"unregistered_sources"` // citations of unregistered sources: accept or reject
	// OTLPContent is the policy for content that arrives over OTLP: keep, or hashes to keep only
	// hashes of it. It is empty if the server is too old to send it.
	OTLPContent   string `json:"otlp_content"`
	TreeSize      uint64 `json:"tree_size"`
	RootHash      string `json:"root_hash"`
	Tip           string `json:"tip"` // event_hash of the last event
	LastEventTime Time   `json:"last_event"`
	// Scopes lists the caller's scopes on the ledger, such as read. A write scope does not mean
	// that the server and the ledger currently accept writes.
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
	Step string `json:"step"` // rotate or retire
}

// PayloadMemberSecret holds the secret that a ledger uses to compute the digests of payload
// members.
type PayloadMemberSecret struct {
	MemberSecret string `json:"member_secret"` // 64 hexadecimal digits
}

// KeyHistory lists the verifier keys of a log, as reported by the server. Use proofs.ParseKeyHistory to
// verify that each key was handed over to the next.
type KeyHistory struct {
	Origin       string        `json:"origin"`
	VerifierKey  string        `json:"verifier_key"` // the newest key
	ReplacedKeys []ReplacedKey `json:"retired"`      // most recently replaced first
}

// ReplacedKey is a key that has a successor.
type ReplacedKey struct {
	VerifierKey string  `json:"verifier_key"`
	ReplacedAt  uint64  `json:"replaced_at"`  // seq of the event that introduces the next key, which starts to sign with this event
	SignedUpTo  *uint64 `json:"signed_up_to"` // largest tree size for which its signatures are valid; nil while this key and the newest key both sign
	Handover    string  `json:"handover"`     // signed note that names the next key
}

// Stats counts a ledger's records, refusals and checks.
type Stats struct {
	AsOf       uint64            `json:"as_of"`
	TreeSize   uint64            `json:"tree_size"`
	Records    map[Kind]uint64   `json:"records"`
	Refusals   map[string]uint64 `json:"refusals"`   // number of refusals for each reason
	Incomplete map[string]uint64 `json:"incomplete"` // number of IPC records that lack each part
	Checks     []CheckCount      `json:"checks"`
}

// CheckCount is the number of checks with the same kind of record, the same field, and the same
// result.
type CheckCount struct {
	Kind   Kind        `json:"kind"`
	Field  string      `json:"field"`
	Result CheckResult `json:"result"`
	Count  uint64      `json:"count"`
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
	Version             string         `json:"version"`      // the server's version
	Required            bool           `json:"required"`     // requests to ledgers need credentials, except to public logs
	AcceptsTokens       bool           `json:"tokens"`       // the server accepts API tokens
	AcceptsCertificates bool           `json:"certificates"` // the server accepts client certificates
	ReadOnly            bool           `json:"read_only"`    // the server refuses all writes
	OIDC                []SignInIssuer `json:"oidc"`         // the issuers that a browser can use to sign in
}

// SignInIssuer is an OpenID Connect issuer. A browser uses the authorization code flow with PKCE.
type SignInIssuer struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"` // ID of a public client, which has no secret
}

// ProofAnswer is an inclusion or consistency proof (RFC 6962).
type ProofAnswer struct {
	AsOf       uint64   `json:"as_of"` // size of the tree whose root can be computed from the proof
	Hashes     []string `json:"hashes"`
	Checkpoint string   `json:"checkpoint,omitempty"` // checkpoint of the tree of size AsOf; set only in a consistency proof for the current tree
}

// ProducerRow describes what a producer has delivered. Seq is the seq of its latest record.
type ProducerRow struct {
	RowMembers
	ID         string `json:"id"`
	Records    uint64 `json:"records"`
	CompleteTo uint64 `json:"complete_to"` // all sequence numbers from 1 to this one have been delivered
	Highest    uint64 `json:"highest"`
	Missing    uint64 `json:"missing"`  // number of sequence numbers from 1 to Highest that were not delivered
	Repeated   uint64 `json:"repeated"` // number of records that repeat a sequence number
}

// ProducerAnswer is a producer with one page of its gaps and one page of its duplicates.
type ProducerAnswer struct {
	IndexedTreeSize
	ProducerRow
	Gaps       []ProducerGap       `json:"gaps"`
	Duplicates []ProducerDuplicate `json:"duplicates"`
	Next       string              `json:"next,omitempty"` // cursor of the next page of both gaps and duplicates
}

// ProducerGap is an inclusive range of missing sequence numbers.
type ProducerGap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// ProducerDuplicate is a record that repeats a sequence number of its producer.
type ProducerDuplicate struct {
	RowMembers
	ProducerSeq uint64 `json:"producer_seq"`
	FirstSeq    uint64 `json:"first_seq"` // seq of the first record with this sequence number
}

// IndexPart is a part of a server's index of a ledger. The rows are sorted by key.
type IndexPart struct {
	AsOf     uint64 `json:"as_of"`     // the number of events that the index covers
	RootHash string `json:"root_hash"` // root hash of the tree of size AsOf
	Layout   string `json:"layout"`    // identifies the index layout; servers with different layouts have different rows
	Digest   string `json:"digest"`    // SHA-256 of the rows; present even if Rows is absent
	Rows     []byte `json:"rows,omitempty"`
	Next     string `json:"next,omitempty"` // cursor of the next part; absent in the last part
}
