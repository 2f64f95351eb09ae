package verify

import (
	"fmt"
	"strings"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// acceptedPack is the report on a verified audit pack.
type acceptedPack struct {
	Verified       bool   `json:"verified"`
	Code           int    `json:"code"` // exit code, always 0
	Ledger         string `json:"ledger"`
	Origin         string `json:"origin"`
	TreeSize       uint64 `json:"tree_size"`         // number of entries that the checkpoint covers
	KeyFingerprint string `json:"key_fingerprint"`   // of the key that signed the checkpoint
	Records        int    `json:"records"`           // number of verified events
	Links          int    `json:"links"`             // number of verified chain links between consecutive events
	Contents       int    `json:"contents"`          // number of verified pieces of content
	Redacted       int    `json:"redacted"`          // number of records whose content was erased
	Missing        int    `json:"missing"`           // number of pieces of content that are not in the pack
	Recomputed     int    `json:"recomputed"`        // number of records whose hashes were recomputed
	Claimed        int    `json:"claimed"`           // number of claimed hashes in recomputed records that cannot be computed from the pack
	Unknown        int    `json:"unknown,omitempty"` // number of recomputed records whose cache key and digest could not be checked
	OwnPage        bool   `json:"own_page"`          // whether the HTML page is exactly the page that this program writes
	coverage
}

// packCoverage returns the coverage of an audit pack. The member verifier_keys is not proved,
// because the pack is not verified with those keys.
func packCoverage() coverage {
	return coverage{[]string{"format", "ledger", "checkpoint", "records", "contents"}, []string{"exported", "verifier_keys", "content"}}
}

// verifyPack verifies the data in an audit pack, which is an HTML page. It never runs the scripts
// of the page.
func verifyPack(o Options, text []byte, keys []*proofs.Verifier) (verified, error) {
	if err := o.rejectOtherFlags("an audit pack"); err != nil {
		return nil, err
	}
	p, own, err := pack.Parse(text)
	if err != nil {
		return nil, err
	}
	r, err := p.Verify(keys...)
	if err != nil {
		return nil, err
	}
	if err := ledgerName(p.Ledger); err != nil {
		return nil, err
	}
	return &acceptedPack{
		Verified: true, Ledger: p.Ledger, Origin: r.Checkpoint.Origin, TreeSize: r.Checkpoint.Size, OwnPage: own,
		KeyFingerprint: fingerprint([]byte(p.Checkpoint), keys),
		Records:        r.Events, Links: r.Links, Contents: r.ContentCount, Redacted: r.RedactedRecords, Missing: r.MissingContentCount, Recomputed: r.RecomputedRecords,
		Claimed: r.ClaimedChecks, Unknown: r.UnconfirmableRecords, coverage: packCoverage(),
	}, nil
}

func (p *acceptedPack) print(c *cli.Console) error {
	count := func(n int, thing string) string { return cli.FormatCount(uint64(n), thing) }
	text := fmt.Sprintf("VERIFIED: %s of ledger %s\n", count(p.Records, "event"), p.Ledger) +
		fmt.Sprintf("  in the log  %s, at tree size %d\n", p.Origin, p.TreeSize) +
		fmt.Sprintf("  signed by   key %s\n", p.KeyFingerprint) +
		fmt.Sprintf("  chain       %s between consecutive events\n", count(p.Links, "link")) +
		fmt.Sprintf("  content     %s as recorded, %s with erased content, %s not in the pack\n",
			count(p.Contents, "piece"), count(p.Redacted, "record"), count(p.Missing, "piece")) +
		fmt.Sprintf("  hashes      recomputed for %s\n", count(p.Recomputed, "record"))
	if p.Claimed > 0 {
		text += fmt.Sprintf("  CLAIMED     %s that cannot be checked against the content of these records\n", count(p.Claimed, "claim"))
	}
	if p.Unknown > 0 {
		text += fmt.Sprintf("  NOT CHECKED: the cache keys and digests of %s; they cover texts that are too long to fit in an event\n", count(p.Unknown, "record"))
	}
	text += fmt.Sprintf("  proved      %s\n", strings.Join(p.Proved, ", ")) + p.unproved("the pack's creator")
	if !p.OwnPage {
		text += "  page        differs from the page that this version of colophon makes: what the page shows in a browser may be false\n"
	}
	_, err := fmt.Fprint(c.Out, text)
	return err
}
