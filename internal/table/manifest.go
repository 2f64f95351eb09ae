package table

import (
	"encoding/json"
	"fmt"

	"colophon/proofs"
)

// ManifestSuffix is appended to the name of a file of exported rows to form the name of its
// manifest file.
const ManifestSuffix = ".manifest.json"

// manifestVersion is the value of version, the first member of a manifest file.
const manifestVersion = "colophon-export/1"

// Manifest is the content of the file that proves the rows of an export.
type Manifest struct {
	Version         string `json:"version"`  // version of the file's format
	Format          Format `json:"format"`   // format of the exported file; not signed, because the rows are the same in every format
	SignedNote      string `json:"manifest"` // signed note of a proofs.ExportManifest
	BodyWithoutRows string `json:"rest"`     // the exact JSON text of the response body, without its rows
	LeafHashes      []byte `json:"leaves"`   // concatenated RFC 6962 leaf hashes of the rows, 32 bytes each
}

// NewManifest returns the manifest for a file of exported rows in the given format. note, rest, and
// leaves become the fields SignedNote, BodyWithoutRows, and LeafHashes.
func NewManifest(format Format, note string, rest []byte, leaves []proofs.Hash) *Manifest {
	m := &Manifest{Version: manifestVersion, Format: format, SignedNote: note, BodyWithoutRows: string(rest), LeafHashes: make([]byte, 0, len(leaves)*proofs.HashSize)}
	for _, leaf := range leaves {
		m.LeafHashes = append(m.LeafHashes, leaf[:]...)
	}
	return m
}

// ParseManifest parses a manifest file. ok is false if text is not a manifest.
func ParseManifest(text []byte) (m *Manifest, ok bool, err error) {
	m = new(Manifest)
	if json.Unmarshal(text, m) != nil || m.Version == "" || m.SignedNote == "" {
		return nil, false, nil
	}
	switch {
	case m.Version != manifestVersion:
		return nil, true, fmt.Errorf("%w: the manifest file has the version %.60q, but this program supports only %s", proofs.ErrMalformed, m.Version, manifestVersion)
	case len(m.LeafHashes)%proofs.HashSize != 0:
		return nil, true, fmt.Errorf("%w: the manifest file has %d bytes of row hashes, which is not a whole number of hashes", proofs.ErrMalformed, len(m.LeafHashes))
	}
	for _, f := range Formats {
		if m.Format == f {
			return m, true, nil
		}
	}
	return nil, true, fmt.Errorf("%w: the manifest file has the unknown format %.60q", proofs.ErrMalformed, m.Format)
}

// Verify verifies the manifest with trusted keys, and returns the signed manifest and the leaf
// hashes of the rows. It returns any error from proofs.OpenExport, or proofs.ErrInclusion if the
// manifest does not match its signed note.
func (m *Manifest) Verify(keys ...*proofs.Verifier) (*proofs.ExportManifest, []proofs.Hash, error) {
	signed, err := proofs.OpenExport([]byte(m.SignedNote), keys...)
	if err != nil {
		return nil, nil, err
	}
	leaves := make([]proofs.Hash, len(m.LeafHashes)/proofs.HashSize)
	for i := range leaves {
		leaves[i] = proofs.Hash(m.LeafHashes[i*proofs.HashSize:])
	}
	if err := signed.VerifyRows(leaves, []byte(m.BodyWithoutRows)); err != nil {
		return nil, nil, err
	}
	return signed, leaves, nil
}
