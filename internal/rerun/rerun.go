package rerun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
)

// Plan says which record to rerun, at which endpoint, and how many times.
type Plan struct {
	Record   *Record
	Endpoint *Endpoint
	Request  *Request
	RunCount int               // number of runs
	Labels   map[string]string // labels to add to each posted run, in addition to rerun_of
}

// Run describes one new output that was posted to the ledger. It includes the ledger's
// comparison of the new output with the recorded output.
type Run struct {
	Seq           uint64                    `json:"seq"`         // seq of the posted record
	OutputHash    string                    `json:"output_hash"` // hash of the new output
	OutputMatches bool                      `json:"equal"`       // whether the output equals the recorded one
	Cause         wire.DriftCause           `json:"cause"`       // result of the comparison with the recorded run
	Differences   []wire.VariableDifference `json:"differences"` // variables that differ between the two runs
	Summary       string                    `json:"says"`        // the cause and the differences in words
}

// Report is the result of all runs.
type Report struct {
	RecordSeq          uint64 `json:"record"`           // seq of the record that was rerun
	RecordedOutputHash string `json:"output_hash"`      // hash of the recorded output
	Endpoint           string `json:"endpoint"`         // URL of the endpoint
	RequestedRuns      int    `json:"requested"`        // number of runs requested
	EqualRuns          int    `json:"equal"`            // number of runs with the recorded output
	DistinctOutputs    int    `json:"distinct_outputs"` // number of different outputs among the runs
	Summary            string `json:"says"`             // the result in words
	Runs               []Run  `json:"runs"`             // in the order in which they were made
}

// Run generates the output p.RunCount times, one run after another. It posts each output to the
// ledger and then calls done. If a run fails, the report contains the earlier runs. Run returns
// errors from package client unchanged.
func (p *Plan) Run(ctx context.Context, to *client.Ledger, done func(Run) error) (*Report, error) {
	r := &Report{RecordSeq: p.Record.Seq, RecordedOutputHash: p.Record.outputHash(), Endpoint: p.Endpoint.String(), RequestedRuns: p.RunCount, Runs: []Run{}}
	err := p.runAll(ctx, to, func(run Run) error {
		r.Runs = append(r.Runs, run)
		return done(run)
	})
	outputs := make(map[string]bool)
	for _, run := range r.Runs {
		outputs[run.OutputHash] = true
		if run.OutputMatches {
			r.EqualRuns++
		}
	}
	r.DistinctOutputs = len(outputs)
	r.Summary = p.conclude(r)
	return r, err
}

func (p *Plan) runAll(ctx context.Context, to *client.Ledger, done func(Run) error) error {
	digest := p.Record.spelling(p.Endpoint.ModelDigest(ctx, p.Record.Event.Model))
	name := fmt.Sprintf("rerun/%d/%s", p.Record.Seq, rand.Text())
	for i := range p.RunCount {
		generated, err := p.Endpoint.Generate(ctx, p.Request)
		if err != nil {
			return err
		}
		posted := p.record(generated, digest)
		posted.RunID = fmt.Sprintf("%s/%d", name, i+1)
		receipt, err := to.Records.Post(ctx, posted, nil)
		if err != nil {
			return err
		}
		run := Run{Seq: receipt.Seq, OutputHash: receipt.Hashes.Get("output_hash")}
		run.OutputMatches = run.OutputHash == p.Record.outputHash()
		found, err := to.Drift.ChangeAttribution(ctx, p.Record.Seq, run.Seq, &client.QueryOptions{AfterSeq: run.Seq})
		if err == nil {
			run.Cause, run.Differences, run.Summary = found.Cause, found.Differences, found.Summary
		}
		if err := errors.Join(err, done(run)); err != nil { // report the run even if the comparison failed, because the run has been posted
			return err
		}
	}
	return nil
}

// record returns the IPC record of a new output. The record's environment contains only the
// model digest that the endpoint reports, because nothing else is known.
func (p *Plan) record(g *Generation, digest string) *wire.IPCRecord {
	recorded := p.Record.Event
	posted := &wire.IPCRecord{
		Payload: p.Record.Payload, PayloadSchema: recorded.PayloadSchema, SystemPrompt: p.Record.SystemPrompt, Output: &g.Output,
		Model: recorded.Model, Temperature: recorded.Temperature, MaxTokens: recorded.MaxTokens, Seed: recorded.Seed, Usage: g.Usage,
	}
	posted.Timestamp = time.Now().UTC().Format(time.RFC3339)
	posted.Labels = make(map[string]string)
	maps.Copy(posted.Labels, p.Labels)
	posted.Labels["rerun_of"] = cli.FormatUint(p.Record.Seq)
	if n := len(g.SystemFingerprint); n > 0 && n <= 128 {
		posted.Labels["system_fingerprint"] = g.SystemFingerprint
	}
	if digest != "" {
		posted.Environment = &wire.Environment{ModelDigest: &digest}
	}
	return posted
}

// spelling returns the recorded model digest if it differs from digest only in the prefix
// "sha256:" or in length. Otherwise, it returns digest. A recorded digest can be short because
// ollama list shows only the first digits.
func (r *Record) spelling(digest string) string {
	const shown = 12 // number of digits that ollama list shows
	recorded := r.Event.Environment["model_digest"]
	a, b := strings.TrimPrefix(recorded, "sha256:"), strings.TrimPrefix(digest, "sha256:")
	if min(len(a), len(b)) >= shown && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
		return recorded
	}
	return digest
}

// conclude returns a summary of how reproducible the record is.
func (p *Plan) conclude(r *Report) string {
	n := len(r.Runs)
	counted := fmt.Sprintf("%d of %s the recorded output; %s.", r.EqualRuns, having(n), cli.FormatCount(uint64(r.DistinctOutputs), "distinct output"))
	switch {
	case n == 0:
		return "No run has finished."
	case r.EqualRuns == n:
		return "Reproduced: " + counted
	case r.DistinctOutputs > 1:
		return "Not reproducible here: " + counted + " " + p.whyDistinct()
	case n == 1:
		return "Not reproduced: " + counted + " More runs (-n) show whether the endpoint repeats its own output."
	}
	return "Not reproduced, but stable: " + counted + " Something that the record does not name differs from the recorded run: the build of the model, the form of the prompt, or a setting."
}

func having(runs int) string {
	if runs == 1 {
		return "1 run has"
	}
	return fmt.Sprintf("%d runs have", runs)
}

// whyDistinct returns a sentence that explains why runs under the same conditions can produce
// different outputs, and what to do about it.
func (p *Plan) whyDistinct() string {
	switch temperature := p.Record.Event.Temperature; {
	case temperature != nil && *temperature == 0:
		return "The temperature is 0, so the endpoint computes differently from run to run: let it serve one request at a time, on one kind of hardware."
	case p.Record.Event.Seed == "":
		return "The record has no seed, so the output is left to chance: record a seed with each run."
	}
	return "The endpoint ignores the seed, or cannot reproduce its own output: give an --endpoint that accepts a seed, and let it serve one request at a time."
}
