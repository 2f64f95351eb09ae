// Package corpus generates the records that every contestant stores: IPC records of about 1.5 KB
// with content, a run_id, and correct claimed hashes. The seed determines every record.
package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
)

// These constants determine how often texts repeat. Every record shares its prompt with others. One
// payload in repeatPayload repeats one of the first popular payloads, because drift queries compare
// runs of the same input. One output in repeatOutput repeats one of the first popular outputs.
const (
	prompts       = 32
	popular       = 1000
	repeatPayload = 10
	repeatOutput  = 20
)

// Corpus generates records. It is safe for concurrent use.
type Corpus struct {
	seed    uint64
	prompts [prompts]prompt
}

// prompt is a system prompt, escaped for a JSON string, and its hash.
type prompt struct {
	text []byte
	hash []byte // in hexadecimal
}

// New returns the corpus with the given seed.
func New(seed uint64) *Corpus {
	c := &Corpus{seed: seed}
	for i := range c.prompts {
		random := c.random(promptStream, uint64(i))
		text := appendLines(nil, random, 3)
		c.prompts[i] = prompt{text: escape(nil, text), hash: digest(nil, text)}
	}
	return c
}

// These constants number independent streams of random numbers. Each text depends only on the
// seed, its stream, and its own number.
const (
	promptStream = iota
	payloadStream
	outputStream
	recordStream
)

func (c *Corpus) random(stream, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed<<3|stream, index))
}

var models = [...]string{"claude-2", "claude-2.1", "gpt-4-1106-preview", "alpaca-7b"}

// recordParts describes what a record consists of. A text is identified by the number of the first record
// that contains it.
type recordParts struct {
	prompt, payload, output uint64
	model                   string
	temperature             float64
}

// chooseParts chooses the texts, the model, and the temperature of record i. The choice depends only on
// the seed and i.
func (c *Corpus) chooseParts(i uint64) recordParts {
	random := c.random(recordStream, i)
	d := recordParts{prompt: i, payload: i, output: i,
		model: models[random.IntN(len(models))], temperature: float64(random.IntN(11)) / 10}
	if i >= prompts {
		d.prompt = uint64(min(random.IntN(prompts), random.IntN(prompts)))
	}
	if i >= popular && random.IntN(repeatPayload) == 0 {
		d.payload = random.Uint64N(popular)
	}
	if i >= popular && random.IntN(repeatOutput) == 0 {
		d.output = random.Uint64N(popular)
	}
	return d
}

// Append appends record i, a JSON object in the format of Python's json.dumps. unique is the number
// of appended bytes, not counting a system prompt, payload, or output that an earlier record
// contains.
func (c *Corpus) Append(dst []byte, i uint64) (record []byte, unique int) {
	begin, d, repeated := len(dst), c.chooseParts(i), 0
	dst = append(dst, `{"run_id": "bench/`...)
	dst = strconv.AppendUint(dst, i, 10)
	dst = append(dst, `", "payload": `...)
	payload := len(dst)
	dst, input := c.appendPayload(dst, d.payload)
	if d.payload != i {
		repeated += len(dst) - payload
	}
	prompt := &c.prompts[d.prompt]
	if d.prompt != i {
		repeated += len(prompt.text)
	}
	output := appendText(make([]byte, 0, 512), c.random(outputStream, d.output), 52)
	if d.output != i {
		repeated += len(output)
	}
	dst = member(dst, "input_hash", input)
	dst = member(dst, "system_prompt", prompt.text)
	dst = member(dst, "system_prompt_hash", prompt.hash)
	dst = member(dst, "output", output)
	dst = member(dst, "output_hash", digest(make([]byte, 0, 64), output))
	dst = member(dst, "model", []byte(d.model))
	dst = appendNumbers(dst, d.temperature, d.payload)
	dst = member(dst, "ipc_id", chain(input, prompt.hash, d.model, d.temperature, d.payload))
	dst = append(dst, `, "labels": {"dataset": "helpful_base", "worker": "w`...)
	dst = strconv.AppendUint(dst, i%16, 10)
	dst = append(dst, `"}}`...)
	return dst, len(dst) - begin - repeated
}

// maxTokens is the max_tokens of every record.
const maxTokens = "2048"

func appendNumbers(dst []byte, temperature float64, seed uint64) []byte {
	dst = append(dst, `, "temperature": `...)
	dst = appendTemperature(dst, temperature)
	dst = append(dst, `, "max_tokens": `+maxTokens+`, "seed": `...)
	return strconv.AppendUint(dst, seed, 10)
}

// appendTemperature appends a number with one decimal place. For multiples of 0.1, the result
// equals CPython's repr.
func appendTemperature(dst []byte, temperature float64) []byte {
	return strconv.AppendFloat(dst, temperature, 'f', 1, 64)
}

// chain returns the ipc_id of a record (spec: IPC hashes).
func chain(input, prompt []byte, model string, temperature float64, seed uint64) []byte {
	joined := make([]byte, 0, 192)
	joined = append(append(joined, input...), ':')
	joined = append(append(joined, prompt...), ':')
	joined = append(append(joined, model...), ':')
	joined = append(appendTemperature(joined, temperature), ":"+maxTokens+":"...)
	return digest(make([]byte, 0, 64), strconv.AppendUint(joined, seed, 10))
}

// appendPayload appends payload number i, with its members unsorted, as a program would write them.
// It also returns the payload's input_hash, which covers the JSON with spaces and sorted members.
func (c *Corpus) appendPayload(dst []byte, i uint64) (payload, hash []byte) {
	random := c.random(payloadStream, i)
	instruction := appendText(make([]byte, 0, 512), random, 48)
	world := "w" + strconv.Itoa(random.IntN(64))
	axes := appendAxes(make([]byte, 0, 256), random)
	seed := strconv.AppendUint(nil, i, 10)

	sorted := make([]byte, 0, 1024)
	sorted = append(append(sorted, `{"axes": `...), axes...)
	sorted = member(sorted, "dataset", []byte("helpful_base"))
	sorted = member(sorted, "instruction", instruction)
	sorted = append(append(sorted, `, "seed": `...), seed...)
	sorted = append(member(sorted, "world_id", []byte(world)), '}')

	dst = append(append(append(dst, `{"instruction": "`...), instruction...), '"')
	dst = member(dst, "dataset", []byte("helpful_base"))
	dst = member(dst, "world_id", []byte(world))
	dst = append(append(dst, `, "seed": `...), seed...)
	dst = append(append(append(dst, `, "axes": `...), axes...), '}')
	return dst, digest(make([]byte, 0, 64), sorted)
}

var labels = [...]string{"plain", "formal", "terse", "verbose"}

func appendAxes(dst []byte, random *rand.Rand) []byte {
	for i, name := range [...]string{"difficulty", "style", "tone"} {
		dst = append(dst, `, "`...)
		if i == 0 {
			dst = append(dst[:len(dst)-3], `{"`...)
		}
		dst = append(append(dst, name...), `": {"label": "`...)
		dst = append(append(dst, labels[random.IntN(len(labels))]...), `", "score": `...)
		dst = append(appendTemperature(dst, float64(random.IntN(11))/10), '}')
	}
	return append(dst, '}')
}

// member appends a member whose value is a string that needs no escaping.
func member(dst []byte, name string, value []byte) []byte {
	dst = append(append(append(dst, `, "`...), name...), `": "`...)
	return append(append(dst, value...), '"')
}

func digest(dst, text []byte) []byte {
	h := sha256.Sum256(text)
	return hex.AppendEncode(dst, h[:])
}
