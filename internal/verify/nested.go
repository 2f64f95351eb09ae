package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// acceptedPart is the report on a verified nested proof.
type acceptedPart struct {
	*accepted
	Stage        *acceptedStage    `json:"stage,omitempty"`
	Citation     *acceptedCitation `json:"citation,omitempty"`
	TextVerified bool              `json:"text_verified"` // true if a text was given and has the recorded hash
	embedded     []byte            // the text in the proof; nil if there is none
}

type acceptedStage struct {
	Name  string `json:"name"`
	Index uint64 `json:"index"` // position among the run's stages, from 0
	Hash  string `json:"hash"`
	Root  string `json:"root"` // root of the run's tree
}

type acceptedCitation struct {
	Index     uint64 `json:"index"` // position in the citation set, from 0
	ChunkHash string `json:"chunk_hash"`
}

// verifyNested verifies a nested proof. It also verifies the text in the proof and the text given
// with --text, if there are any.
func verifyNested(c *cli.Console, o Options, text []byte, keys []*proofs.Verifier) (verified, error) {
	if err := o.rejectOtherFlags("a nested proof, which covers only part of a record", "text"); err != nil {
		return nil, err
	}
	n, err := proofs.ParseNestedProof(text)
	if err != nil {
		return nil, err
	}
	if err := n.Verify(keys...); err != nil {
		return nil, err
	}
	if n.Citation != nil {
		if _, err := proofs.ParseHash(strings.TrimPrefix(n.Citation.ChunkHash, "sha256:")); err != nil {
			return nil, fmt.Errorf("checking the chunk hash of the citation: %w", err)
		}
	}
	if n.Text != nil {
		if err := verifyText(n, n.Text); err != nil {
			return nil, fmt.Errorf("checking the text in the proof: %w", err)
		}
	}
	if o.TextFile != "" {
		given, err := c.ReadFile(o.TextFile)
		if err != nil {
			return nil, err
		}
		if err := verifyText(n, given); err != nil {
			return nil, fmt.Errorf("checking the text in %s: %w", o.TextFile, err)
		}
	}
	a, err := newAccepted(n.Receipt, keys)
	if err != nil {
		return nil, err
	}
	part := &acceptedPart{accepted: a, TextVerified: n.Text != nil || o.TextFile != "", embedded: n.Text}
	if s := n.Stage; s != nil {
		part.Stage = &acceptedStage{s.Name, s.Index, fmt.Sprintf("%x", s.Hash), fmt.Sprintf("%x", s.Root)}
	} else {
		part.Citation = &acceptedCitation{n.Citation.Index, n.Citation.ChunkHash}
	}
	return part, nil
}

// verifyText checks that text is the text of the stage or citation that n proves (spec: Nested
// proofs).
func verifyText(n *proofs.NestedProof, text []byte) error {
	if MatchesText(n, text) {
		return nil
	}
	if shorter, found := bytes.CutSuffix(text, []byte("\n")); found && MatchesText(n, shorter) {
		return fmt.Errorf("%w: the text ends with an extra line feed; remove it", ErrTextMismatch)
	}
	if n.Citation != nil {
		return fmt.Errorf("%w: the text's chunk hash is %s, but the citation's chunk hash is %s", ErrTextMismatch, rules.ChunkHash(text), n.Citation.ChunkHash)
	}
	return fmt.Errorf("%w: the recorded hash of stage %.100q is %x, but the text (%d bytes) has a different hash", ErrTextMismatch, n.Stage.Name, n.Stage.Hash, len(text))
}

// MatchesText reports whether text has the hash of the stage or citation that n proves (spec: Nested
// proofs).
func MatchesText(n *proofs.NestedProof, text []byte) bool {
	if n.Citation != nil {
		return rules.ChunkHash(text) == n.Citation.ChunkHash
	}
	var document pyjson.Document
	mode := ""
	if document.Parse(n.Receipt.Proof.Event) == nil {
		e := event.Read(document.Root())
		mode = string(e.DAG().QuestionMode)
	}
	return slices.Contains(record.StageHashes(n.Stage.Name, mode, text), n.Stage.Hash)
}

func (p *acceptedPart) print(c *cli.Console) error {
	if err := p.accepted.print(c); err != nil {
		return err
	}
	text := "not checked: give it with --text"
	if p.TextVerified {
		text = "matches the recorded hash"
	}
	if p.embedded != nil {
		text += ": " + excerpt(p.embedded)
	}
	// Quote the names: they are untrusted and may contain terminal control characters.
	part := ""
	if s := p.Stage; s != nil {
		part = fmt.Sprintf("  stage       %q, number %d in the run with root %s\n  stage hash  %s\n", s.Name, s.Index+1, s.Root, s.Hash)
	} else {
		part = fmt.Sprintf("  citation    number %d in the citation set\n  chunk hash  %s\n", p.Citation.Index+1, p.Citation.ChunkHash)
	}
	_, err := fmt.Fprintf(c.Out, "%s  text        %s\n", part, text)
	return err
}

// excerpt returns the first 200 bytes of text, quoted.
func excerpt(text []byte) string {
	const most = 200
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(string(text[:most]), ""), len(text))
}
