package wire

// ProjectRow describes a project, which is a story with its paths. Seq is the seq of the project's
// first record.
type ProjectRow struct {
	RowMembers
	Project    string `json:"project"`
	Paths      uint64 `json:"paths"`      // number of distinct paths
	Builds     uint64 `json:"builds"`     // number of distinct builds
	Collisions uint64 `json:"collisions"` // number of paths whose usual path_id another path already had
}

// PathRow describes a path as of its latest record. If the query names a build, it describes the
// path as of its latest record in that build.
type PathRow struct {
	RowMembers
	PathID   string   `json:"path_id"`  // 8 hexadecimal digits or, after a collision, more
	Route    []string `json:"route"`    // names of passages in reading order
	Category string   `json:"category"` // new, modified, unchanged, or incomparable
	PathStatus
	Build *string `json:"build"` // build of the record; nil if it names none
	Time  Time    `json:"time"`  // time of the record
}

// PathStatus holds the fingerprints of a path and what the ledger derived from them. A fingerprint is 8
// hexadecimal digits, or up to 64 if HashVersion is not adr-004. It is nil if the record has neither
// content nor a claimed fingerprint.
type PathStatus struct {
	Validated bool `json:"validated"` // false if the last validation that applies said so, or if none applies
	// EarlierValidationSeq is the seq of a validation of the same content, in this build or a build
	// on which it is based, that no longer applies. It is 0 if there is none.
	EarlierValidationSeq uint64 `json:"validated_before,omitempty"`
	// LinksChanged is true if the content is the same as in the compared record, except that its links
	// differ.
	LinksChanged          bool    `json:"links_changed"`
	ContentFingerprint    *string `json:"content_fingerprint"`     // fingerprint of the content without its links
	RawContentFingerprint *string `json:"raw_content_fingerprint"` // fingerprint of the content with its links
	HashVersion           string  `json:"hash_version,omitempty"`  // version of the fingerprint rules; "" means adr-004
}

// PathVersion is the status of a path after one event: a record of the path, or a validation of such a
// record. The status applies to the record's build.
type PathVersion struct {
	RowMembers
	Kind Kind `json:"kind"`
	Time Time `json:"time"`
	// RecordSeq is the seq of the event itself or, for a validation, of the validated record.
	RecordSeq uint64 `json:"record_seq"`
	Category  string `json:"category"` // new, modified, unchanged, or incomparable
	PathStatus
	Route  []string `json:"route,omitempty"`  // set only if the event is a record
	Build  *string  `json:"build,omitempty"`  // nil if the record names no build
	Reason *string  `json:"reason,omitempty"` // set only if the event is a validation
}

// BuildRow counts the records of a build by category. Seq is the seq of the build's first record.
type BuildRow struct {
	RowMembers
	Build  string  `json:"build"`
	Branch *string `json:"branch"` // nil if the build has none
	Base   *string `json:"base"`   // build with which this one is compared; nil if there is none
	// UnknownBase is the base that the build's first record names, if that build did not exist at that
	// time.
	UnknownBase *string `json:"unknown_base,omitempty"`
	Time        Time    `json:"time"`      // time of the build's first record
	New         uint64  `json:"new"`       // number of records whose path the base lacks
	Modified    uint64  `json:"modified"`  // number of records whose content differs from that in the base
	Unchanged   uint64  `json:"unchanged"` // number of records with the same content as in the base
	// Incomparable is the number of records that cannot be compared with an earlier record, because the
	// two hash versions differ and at least one of the two records has no digest of its content.
	Incomparable uint64 `json:"incomparable,omitempty"`
	HashVersion  string `json:"hash_version,omitempty"` // hash_version of the build's first record; "" means adr-004
	Gone         uint64 `json:"gone"`                   // number of paths of the base that this build lacks
	Paths        uint64 `json:"paths"`                  // number of distinct paths
	// OtherBases is the number of records whose base or branch differs from that of the build.
	OtherBases uint64 `json:"other_bases"`
}

// PathDifference describes a path in two builds, A and B. Seq is the seq of the path's record in B, or in A
// if the path is gone.
type PathDifference struct {
	RowMembers
	PathID string   `json:"path_id"`
	Route  []string `json:"route"` // names of passages in reading order
	// Status is the status of B compared with A: new, modified, unchanged, incomparable, or gone.
	Status       string        `json:"status"`
	LinksChanged bool          `json:"links_changed"` // whether A and B differ only in their links
	A            *ComparedPath `json:"a"`             // A or B is nil if that build lacks the path
	B            *ComparedPath `json:"b"`
	// RenameCandidates lists at most 5 paths that might be the same path under a different route.
	// For a new path, it lists gone paths that had the same content. For a gone path, it lists new
	// paths that have the same content.
	RenameCandidates []RenameCandidate `json:"renamed"`
}

// ComparedPath is a path in build A or B of a [PathDifference].
type ComparedPath struct {
	Seq                   uint64  `json:"seq"`                        // seq of the path's latest record in the build
	Validated             bool    `json:"validated"`                  // whether the record is validated
	EarlierValidationSeq  uint64  `json:"validated_before,omitempty"` // seq of a validation that no longer applies
	ContentFingerprint    *string `json:"content_fingerprint"`        // fingerprint of the content without its links
	RawContentFingerprint *string `json:"raw_content_fingerprint"`    // fingerprint of the content with its links
	HashVersion           string  `json:"hash_version,omitempty"`     // rules for the fingerprints; "" means adr-004
}

// RenameCandidate is a path that has the same content as a compared path but a different route, so
// it may be the same path after a rename.
type RenameCandidate struct {
	Seq    uint64   `json:"seq"` // seq of the path's record
	PathID string   `json:"path_id"`
	Route  []string `json:"route"`
}

// PathCollision is a path with a longer path_id, because another path already had its usual one. Seq is
// the seq of the path's first record.
type PathCollision struct {
	RowMembers
	PathID string       `json:"path_id"` // longer than the usual 8 hexadecimal digits
	Route  []string     `json:"route"`
	Holder PathIDHolder `json:"holder"` // path that already had the usual path_id
}

// PathIDHolder is the path that already had the shorter path_id.
type PathIDHolder struct {
	Seq    uint64   `json:"seq"` // seq of the path's first record
	PathID string   `json:"path_id"`
	Route  []string `json:"route"`
}

// PathValidationsRequest validates many paths of a build: those in Paths, those with Status, or all. It
// records events only if DryRun is false and AsOf is the value that the dry run returned.
type PathValidationsRequest struct {
	Validated bool    `json:"validated"`        // whether the content along the routes is correct
	Build     string  `json:"build"`            // build that contains the paths
	Reason    *string `json:"reason,omitempty"` // at most 4,096 bytes; each event contains it
	ActionOrigin
	Paths  []ExpectedPath `json:"paths,omitempty"`   // at most 1,000 paths
	Status string         `json:"status,omitempty"`  // new, modified, unchanged, or incomparable
	DryRun *bool          `json:"dry_run,omitempty"` // default true
	AsOf   *uint64        `json:"as_of,omitempty"`   // tree size of the selection; required if DryRun is false
}

// ExpectedPath names a path and its required fingerprint. A nil fingerprint matches any
// fingerprint.
type ExpectedPath struct {
	PathID             string  `json:"path_id"`
	ContentFingerprint *string `json:"content_fingerprint,omitempty"`
}

// PathValidationsResult is the result of a [PathValidationsRequest]. In a dry run, it describes
// what the request would do.
type PathValidationsResult struct {
	AsOf      uint64          `json:"as_of"`     // tree size at which the paths were selected
	DryRun    bool            `json:"dry_run"`   // whether this was a dry run, which records nothing
	Build     string          `json:"build"`     // build that contains the paths
	Validated bool            `json:"validated"` // value from the request
	Unchanged uint64          `json:"unchanged"` // number of paths that already had this validation
	Paths     []ValidatedPath `json:"paths"`     // paths that were validated or, in a dry run, would be
	Refused   []RefusedPath   `json:"refused"`   // paths that were not validated, each with the reason
}

// ValidatedPath is a path that was validated or, in a dry run, would be validated.
type ValidatedPath struct {
	PathID             string  `json:"path_id"`
	RecordSeq          uint64  `json:"record_seq"`          // seq of the path's latest record in the build
	ContentFingerprint *string `json:"content_fingerprint"` // nil if the record has neither content nor a fingerprint
	Seq                uint64  `json:"seq,omitempty"`       // seq of the validation; 0 in a dry run
}

// RefusedPath is a path that was not validated.
type RefusedPath struct {
	PathID string `json:"path_id"`
	Reason string `json:"reason"` // unknown or changed
}

// The values of RefusedPath.Reason.
const (
	ReasonPathUnknown = "unknown" // the build lacks the path
	ReasonPathChanged = "changed" // the path's fingerprint differs from the one in the request
)
