package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/internal/verify"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// proveCommand holds the flags of the prove command.
type proveCommand struct {
	*cli.Console
	server   remote.Options
	ledger   string
	stage    string
	citation int // index of the citation to prove; -1 if --citation is not given
	embed    bool
}

func newProve(c *cli.Console) *cobra.Command {
	p := &proveCommand{Console: c}
	command := &cobra.Command{
		Use:   "prove SEQ (--stage NAME | --citation NUMBER)",
		Short: "Prove one stage of a run, or one citation of a set",
		Long: `Write a nested proof to the standard output. It proves one stage of the run-DAG SEQ, or
one citation of the citation set SEQ, and reveals no other content of the record. To
verify it offline, the reader needs the text of that part: colophon verify --text.

With --embed, the proof also has the text from the ledger. This needs the scope content.`,
		Example: `  colophon prove 42 --stage answer > answer.proof.json
  colophon prove 43 --citation 0 --embed > chunk.proof.json
  colophon verify answer.proof.json --key verifier.key --text answer.txt`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return p.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	p.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &p.ledger)
	flags.StringVar(&p.stage, "stage", "", "`name` of the stage; NAME#2 is the second stage with this name, and so on")
	flags.IntVar(&p.citation, "citation", -1, "`number` of the citation, counted from 0")
	flags.BoolVar(&p.embed, "embed", false, "add the text of the stage or citation to the proof, as stored in the ledger")
	return command
}

func (p *proveCommand) run(ctx context.Context, arg string) error {
	seq, err := cli.ParseSeq(arg)
	if err != nil {
		return err
	}
	if (p.stage == "") == (p.citation < 0) {
		return cli.ExitErrorf(cli.ExitUsage, "choose the part to prove with either --stage or --citation")
	}
	server, err := p.server.Connect(p.Console)
	if err != nil {
		return err
	}
	n, err := p.proof(ctx, server, seq)
	if err != nil {
		return err
	}
	if p.embed {
		if n.Text, err = textOf(ctx, server, n); err != nil {
			return err
		}
	}
	text, err := n.AppendJSON(nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s\n", text)
	return err
}

func (p *proveCommand) proof(ctx context.Context, server *remote.Connection, seq uint64) (*proofs.NestedProof, error) {
	query := url.Values{"stage": {p.stage}}
	if p.stage == "" {
		query = url.Values{"citation": {strconv.Itoa(p.citation)}}
	}
	answer, err := server.Do(ctx, client.Request{Path: fmt.Sprintf("%s/records/%d/proof", remote.LedgerPath(p.ledger), seq), Query: query})
	if err != nil {
		return nil, server.ExplainFatal(err)
	}
	n, err := proofs.ParseNestedProof(answer.Body)
	if err == nil {
		err = p.checkAnswer(n, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the server's response: %w", err)
	}
	return n, nil
}

// checkAnswer returns an error unless the server's proof is for the requested part of the requested
// event.
func (p *proveCommand) checkAnswer(n *proofs.NestedProof, seq uint64) error {
	r := n.Receipt
	switch {
	case r.Proof == nil:
		return proofs.ErrNoProof
	case r.Seq != seq || r.Ledger != p.ledger:
		return fmt.Errorf("the proof is for event %d of ledger %.100q, not for the requested event", r.Seq, r.Ledger)
	case p.stage == "" && (n.Citation == nil || n.Citation.Index != uint64(p.citation)),
		p.stage != "" && !isStage(n, p.stage):
		return errors.New("the proof is not for the requested part of the event")
	}
	return nil
}

// isStage reports whether the proof is for the stage with the given name, which may have the form
// NAME#2. It reads the list of stages from the event in the proof.
func isStage(n *proofs.NestedProof, name string) bool {
	var event pyjson.Document
	if n.Stage == nil || event.Parse(n.Receipt.Proof.Event) != nil {
		return false
	}
	var stages []rules.Stage
	for node := range event.Root().Member("record").Member("nodes").Elements() {
		stages = append(stages, rules.Stage{Name: string(node.Member("stage").Text()), Hash: string(node.Member("hash").Text())})
	}
	found, ok, err := rules.ProveStage(stages, name)
	return ok && err == nil && uint64(found.Index) == n.Stage.Index
}

// textPlace is a place where the text of a stage or citation may be: the piece of content with the
// given name. If member is not empty, the text is that member of the JSON object in the piece.
type textPlace struct{ content, member string }

// stageTexts lists the places where each stage's text may be, the most likely one first (spec:
// Stage hashes).
var stageTexts = map[string][]textPlace{
	"question":             {{"question", ""}},
	"preflight":            {{"inputs", "preflight_payload"}, {"reject_inputs", "preflight_payload"}, {"dag", "preflight_payload"}},
	"context":              {{"source_roots", ""}},
	"evidence_map":         {{"evidence", ""}},
	"prompt":               {{"messages", ""}},
	"answer":               {{"inputs", "answer_text"}, {"answer_text", ""}},
	"raw_answer":           {{"inputs", "raw_answer_text"}, {"inputs", "answer_text"}, {"answer_text", ""}},
	"parsed_claim_lattice": {{"inputs", "parsed_lattice"}},
	"render":               {{"inputs", "rendered_text"}, {"inputs", "answer_text"}, {"answer_text", ""}},
}

// textOf fetches the text that a proof covers from the record's content. It tries each place where
// the text may be, and returns the first text that matches the proof.
func textOf(ctx context.Context, server *remote.Connection, n *proofs.NestedProof) ([]byte, error) {
	var event pyjson.Document
	if err := event.Parse(n.Receipt.Proof.Event); err != nil {
		return nil, fmt.Errorf("parsing the event in the proof: %w", err)
	}
	var places []textPlace
	if n.Citation != nil {
		places = []textPlace{{"citations/" + cli.FormatUint(n.Citation.Index) + "/text", ""}}
	} else {
		places = stageTexts[n.Stage.Name]
	}
	for _, at := range places {
		if !event.Root().Member("record").Member("content").Member(at.content).IsGiven() {
			continue
		}
		content, err := server.Ledger(n.Receipt.Ledger).Records.Content(ctx, n.Receipt.Seq, at.content)
		if err != nil {
			return nil, server.ExplainFatal(err)
		}
		if text, found := at.in(content); found && verify.MatchesText(n, text) {
			return text, nil
		}
	}
	return nil, cli.ExitErrorf(cli.ExitFailed, "the ledger has no text for the requested part: the record contains only the part's hash, or the hash covers several texts; omit --embed")
}

// in returns the text that p identifies within a piece of content. It returns false if the piece
// does not contain the text.
func (p textPlace) in(content []byte) ([]byte, bool) {
	if p.member == "" {
		return content, true
	}
	var document pyjson.Document
	if document.Parse(content) != nil {
		return nil, false
	}
	switch v := document.Root().Member(p.member); v.Kind() {
	case pyjson.Absent, pyjson.Null:
		return nil, false
	case pyjson.String:
		return v.Text(), true
	default:
		return v.Raw(), true
	}
}
