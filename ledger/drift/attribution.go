// Package drift says what differs between two records and what that means
// (spec: Questions): pure comparisons, without any index.
package drift

import (
	"bytes"

	"colophon/ledger/event"
)

// Cause is why the output of one run differs from that of another, or not (spec: Causes).
type Cause string

// The causes. The first six variables are what an ipc_id is made of; the
// environment's are known only where both runs have them.
const (
	Identical    Cause = "identical"     // nothing differs, the outputs agree
	Input        Cause = "input"         // only the input differs, and the output
	SystemPrompt Cause = "system_prompt" // only the system prompt, and the output
	Model        Cause = "model"
	Temperature  Cause = "temperature"
	MaxTokens    Cause = "max_tokens"
	Seed         Cause = "seed"
	// OllamaBuild and HostPlatform: only that part of the environment differs,
	// and the output.
	OllamaBuild  Cause = "ollama_build_hash"
	HostPlatform Cause = "host_platform"
	Confounded   Cause = "confounded" // several differ, and the output
	NoEffect     Cause = "no_effect"  // something differs, the outputs agree
	// ModelInternal: nothing differs but the model's digest, and the output.
	ModelInternal Cause = "model_internal"
	// Stochastic: nothing differs but the output, and the model's digests are
	// known and equal.
	Stochastic Cause = "stochastic"
	// StochasticOrModelInternal: nothing differs but the output, and a digest is
	// unknown.
	StochasticOrModelInternal Cause = "stochastic_or_model_internal"
	// Incomplete: a hash is null, or the ipc_ids differ and the seed behind one of
	// them is unknown.
	Incomplete Cause = "incomplete"
)

// Causes lists all.
var Causes = [...]Cause{
	Identical, Input, SystemPrompt, Model, Temperature, MaxTokens, Seed, OllamaBuild, HostPlatform,
	Confounded, NoEffect, ModelInternal, Stochastic, StochasticOrModelInternal, Incomplete,
}

// Difference is a variable that two runs have different values of. Hashes and
// texts are as they are, numbers in their canonical form; nil is null.
type Difference struct {
	Variable string
	A, B     []byte
}

// Attribution is the answer to what caused a change.
type Attribution struct {
	Cause Cause
	// Differences are in the order of the causes; of the environment there is only
	// what both runs have.
	Differences   []Difference
	OutputChanged bool
}

// Attribute compares two runs (spec: Causes). A model's digest that differs along with
// the model says nothing of its own: it is listed, and not counted.
func Attribute(a, b *event.IPC) Attribution {
	c := compare(a, b)
	r := Attribution{Cause: c.cause(a, b), OutputChanged: c.outputChanged}
	of, and := values(a), values(b)
	for i, differs := range c.differs {
		if differs {
			r.Differences = append(r.Differences, Difference{variables[i], of[i], and[i]})
		}
	}
	return r
}

// CauseOf is the cause alone.
func CauseOf(a, b *event.IPC) Cause {
	c := compare(a, b)
	return c.cause(a, b)
}

// variables are the names of what can differ beside the output.
var variables = [...]string{
	string(Input), string(SystemPrompt), string(Model), string(Temperature), string(MaxTokens), string(Seed),
	string(OllamaBuild), string(HostPlatform), "model_digest", "ipc_id",
}

// Places in variables. From environment on a value that is not known differs from
// none. The ipc_id is compared in place of a seed that is not known.
const (
	model       = 2
	seed        = 5
	environment = 6
	modelDigest = 8
	ipcID       = 9
)

// values are those of the variables.
func values(r *event.IPC) [len(variables)][]byte {
	return [...][]byte{
		r.InputHash, r.SystemPromptHash, r.Model, r.Temperature, r.MaxTokens, r.Seed,
		r.OllamaBuildHash, r.HostPlatform, r.ModelDigest, r.IPCID,
	}
}

// comparison is what two runs differ in.
type comparison struct {
	differs       [len(variables)]bool
	counted       int // variables that differ, and count
	last          int // place of the last of them
	outputChanged bool
}

func compare(a, b *event.IPC) comparison {
	c := comparison{outputChanged: !bytes.Equal(a.OutputHash, b.OutputHash)}
	of, and := values(a), values(b)
	skipped := ipcID
	if a.IsRun() && b.IsRun() && (a.Seed == nil || b.Seed == nil) {
		skipped = seed // a record may claim its ipc_id without a seed
	}
	for i := range variables {
		if i == skipped {
			continue
		}
		unknown := of[i] == nil || and[i] == nil
		if unknown && i < environment {
			c.differs[i] = (of[i] == nil) != (and[i] == nil)
		} else {
			c.differs[i] = !unknown && !bytes.Equal(of[i], and[i])
		}
		if c.differs[i] && !(i == modelDigest && c.differs[model]) {
			c.counted++
			c.last = i
		}
	}
	return c
}

// cause decides.
func (c *comparison) cause(a, b *event.IPC) Cause {
	switch {
	case !a.IsRun() || !b.IsRun() || c.differs[ipcID]:
		return Incomplete
	case c.counted == 0 && !c.outputChanged:
		return Identical
	case !c.outputChanged:
		return NoEffect
	case c.counted > 1:
		return Confounded
	case c.counted == 1 && c.last == modelDigest:
		return ModelInternal
	case c.counted == 1:
		return Cause(variables[c.last])
	case a.ModelDigest != nil && b.ModelDigest != nil:
		return Stochastic
	}
	return StochasticOrModelInternal
}
