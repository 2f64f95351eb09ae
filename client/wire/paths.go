package wire

// Project is a story. Its Seq is that of its latest record.
type Project struct {
	Row
	Project    string `json:"project"`
	Paths      uint64 `json:"paths"`
	Builds     uint64 `json:"builds"`
	Collisions uint64 `json:"collisions"`
}

// Path is a path as its latest record, or its latest record of a build, states it.
type Path struct {
	Row
	PathID   string   `json:"path_id"`
	Route    []string `json:"route"`
	Category string   `json:"category"` // new, modified or unchanged
	PathStatus
	Build *string `json:"build"`
	Time  Time    `json:"time"`
}

// PathStatus has the fingerprints of a path and what follows from them. A fingerprint is 8 hexadecimal
// digits, nil without content.
type PathStatus struct {
	Validated bool `json:"validated"`
	// ValidatedBefore is the event that validated the same content earlier in the line of builds, where
	// that does not count any more; 0 if there is none.
	ValidatedBefore       uint64  `json:"validated_before,omitempty"`
	LinksChanged          bool    `json:"links_changed"`
	ContentFingerprint    *string `json:"content_fingerprint"`
	RawContentFingerprint *string `json:"raw_content_fingerprint"`
}

// PathVersion is a path as one event, a record or a validation, left it in the build of the record.
type PathVersion struct {
	Row
	Kind      Kind   `json:"kind"`
	Time      Time   `json:"time"`
	RecordSeq uint64 `json:"record_seq"` // the event itself, or the record that was validated
	Category  string `json:"category"`
	PathStatus
	Route  []string `json:"route,omitempty"`
	Build  *string  `json:"build,omitempty"`
	Reason *string  `json:"reason,omitempty"` // of a validation
}

// Build counts the paths of a build. Its Seq is that of the build's first record.
type Build struct {
	Row
	Build       string  `json:"build"`
	Branch      *string `json:"branch"`
	Base        *string `json:"base"`                   // the build that it is compared with
	UnknownBase *string `json:"unknown_base,omitempty"` // a base that it names and that the project did not have
	Time        Time    `json:"time"`
	New         uint64  `json:"new"`
	Modified    uint64  `json:"modified"`
	Unchanged   uint64  `json:"unchanged"`
	Gone        uint64  `json:"gone"` // paths of the base that this one lacks
	Paths       uint64  `json:"paths"`
	OtherBases  uint64  `json:"other_bases"` // records that name another base or branch
}

// PathDifference is a path in two builds, A and B. Its Seq is that of its record in B, or in A if it is gone.
type PathDifference struct {
	Row
	PathID       string    `json:"path_id"`
	Route        []string  `json:"route"`
	Status       string    `json:"status"` // of B against A: new, modified, unchanged or gone
	LinksChanged bool      `json:"links_changed"`
	A            *PathSide `json:"a"` // nil where the build lacks the path
	B            *PathSide `json:"b"`
	// Renamed are paths that may be the same under another route: the other build has the content of a
	// new or gone path under a route that this one lacks. At most 5.
	Renamed []PathRename `json:"renamed"`
}

// PathSide is a path in one of two builds.
type PathSide struct {
	Seq                   uint64  `json:"seq"`
	Validated             bool    `json:"validated"`
	ValidatedBefore       uint64  `json:"validated_before,omitempty"` // see PathStatus
	ContentFingerprint    *string `json:"content_fingerprint"`
	RawContentFingerprint *string `json:"raw_content_fingerprint"`
}

// PathRename is a path of another route with the same content.
type PathRename struct {
	Seq    uint64   `json:"seq"`
	PathID string   `json:"path_id"`
	Route  []string `json:"route"`
}

// Collision is a path whose path_id belonged to another route.
type Collision struct {
	Row
	PathID string          `json:"path_id"`
	Route  []string        `json:"route"`
	Holder CollisionHolder `json:"holder"`
}

// CollisionHolder is the path that has the shorter path_id.
type CollisionHolder struct {
	Seq    uint64   `json:"seq"`
	PathID string   `json:"path_id"`
	Route  []string `json:"route"`
}

// PathValidationsRequest validates many paths of a build: those of Paths, or those of Status, or all. Only with
// DryRun false, and then with the AsOf of the dry run, is anything recorded.
type PathValidationsRequest struct {
	Validated bool         `json:"validated"`
	Build     string       `json:"build"`
	Reason    *string      `json:"reason,omitempty"`
	Paths     []ListedPath `json:"paths,omitempty"`   // at most 1,000
	Status    string       `json:"status,omitempty"`  // new, modified or unchanged
	DryRun    *bool        `json:"dry_run,omitempty"` // default true
	AsOf      *uint64      `json:"as_of,omitempty"`
}

// ListedPath is a path, and the fingerprint that it must have; nil for any.
type ListedPath struct {
	PathID             string  `json:"path_id"`
	ContentFingerprint *string `json:"content_fingerprint,omitempty"`
}

// PathValidations is what a [PathValidationsRequest] did, or would do.
type PathValidations struct {
	AsOf      uint64          `json:"as_of"`
	DryRun    bool            `json:"dry_run"`
	Build     string          `json:"build"`
	Validated bool            `json:"validated"`
	Unchanged uint64          `json:"unchanged"` // paths that are validated so already
	Paths     []ValidatedPath `json:"paths"`
	Refused   []RefusedPath   `json:"refused"`
}

// ValidatedPath is a path that was validated, or would be.
type ValidatedPath struct {
	PathID             string  `json:"path_id"`
	RecordSeq          uint64  `json:"record_seq"`
	ContentFingerprint *string `json:"content_fingerprint"`
	Seq                uint64  `json:"seq,omitempty"` // of the event; 0 in a dry run
}

// RefusedPath is a path that is not validated.
type RefusedPath struct {
	PathID string `json:"path_id"`
	Reason string `json:"reason"`
}

// Reasons of a RefusedPath.
const (
	PathUnknown = "unknown" // the build lacks the path
	PathChanged = "changed" // its fingerprint is another than the one that was to be validated
)
