package wire

// Project is a story. Its Seq is that of its latest record.
type Project struct {
	Row
	Project    string `json:"project"`
	Paths      uint64 `json:"paths"`
	Builds     uint64 `json:"builds"`
	Collisions uint64 `json:"collisions"`
}

// Path is a path as its record, or its record of a build, states it.
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
	Validated             bool    `json:"validated"`
	LinksChanged          bool    `json:"links_changed"`
	ContentFingerprint    *string `json:"content_fingerprint"`
	RawContentFingerprint *string `json:"raw_content_fingerprint"`
}

// PathVersion is a path as one event, a record or a validation, left it.
type PathVersion struct {
	Row
	Kind      Kind   `json:"kind"`
	Time      Time   `json:"time"`
	RecordSeq uint64 `json:"record_seq"` // the path's latest record at that time
	Category  string `json:"category"`
	PathStatus
	Route  []string `json:"route,omitempty"`
	Build  *string  `json:"build,omitempty"`
	Reason *string  `json:"reason,omitempty"` // of a validation
}

// Build counts the paths of a build. Its Seq is that of the build's first record.
type Build struct {
	Row
	Build     string `json:"build"`
	Time      Time   `json:"time"`
	New       uint64 `json:"new"`
	Modified  uint64 `json:"modified"`
	Unchanged uint64 `json:"unchanged"`
	Gone      uint64 `json:"gone"` // paths of the build before that this one lacks
	Paths     uint64 `json:"paths"`
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
