package wire

import "encoding/json"

// TextLength is the length of a text in bytes, in characters and in words. Words are separated by
// white space. In a script without spaces, each character is counted as a word.
type TextLength struct {
	Bytes      uint64 `json:"bytes"`
	Characters uint64 `json:"characters"` // number of Unicode code points
	Words      uint64 `json:"words"`
}

// TextChange describes how much a text changed from A to B. It covers only content that has not been erased. A
// is nil if there is no text to compare B with.
type TextChange struct {
	Unavailable UnavailableReason `json:"unavailable,omitempty"` // why the other fields are missing
	A           *TextLength       `json:"a,omitempty"`           // length of text A
	B           *TextLength       `json:"b,omitempty"`           // length of text B
	// Similarity is the fraction of words and punctuation marks that stay the same, from 0 to 1.
	Similarity *Decimal `json:"similarity,omitempty"`
	// LengthChange is the number of words in B divided by the number of words in A, minus 1. It is nil
	// if A has no words.
	LengthChange *Decimal `json:"length_change,omitempty"`
	LowerBound   bool     `json:"bounded,omitempty"` // the texts are so long that Similarity is a lower bound
}

// UnavailableReason states why the lengths and similarity of texts are missing.
type UnavailableReason string

// Reasons why lengths and similarity are missing.
const (
	UnavailableRedacted  UnavailableReason = "redacted"   // the content of a record has been redacted
	UnavailableNotPosted UnavailableReason = "not_posted" // a record was posted without the text
	// UnavailableWorkLimit means that earlier rows of the response used up the work allowed for one
	// response.
	UnavailableWorkLimit UnavailableReason = "limit"
)

// RunTextChanges describes how much each of three texts changed between two runs.
type RunTextChanges struct {
	Output  TextChange `json:"output"`  // the generated text
	Prompt  TextChange `json:"prompt"`  // the system prompt
	Payload TextChange `json:"payload"` // the JSON input of the generation
}

// EffectTextSummary summarises how much the outputs of pairs of runs differ.
type EffectTextSummary struct {
	Pairs   uint64 `json:"pairs"`  // number of pairs that the figures below cover
	Partial bool   `json:"sample"` // true if there are more pairs, and the figures cover only the first ones
	// Unavailable is the number of further pairs that the figures do not cover, because their texts
	// cannot be read.
	Unavailable uint64 `json:"unavailable"`
	// Similarity, LengthChange, WordsA, and WordsB are nil if they have no value for any pair.
	Similarity   *Quartiles `json:"similarity"`    // quartiles of TextChange.Similarity
	LengthChange *Quartiles `json:"length_change"` // quartiles of TextChange.LengthChange
	WordsA       *Quartiles `json:"words_a"`       // quartiles of the number of words in the output of run A
	WordsB       *Quartiles `json:"words_b"`       // quartiles of the number of words in the output of run B
	// SimilarityHistogram counts the pairs by similarity, in ten equal intervals from 0 to 1. The last
	// interval includes 1.
	SimilarityHistogram []uint64 `json:"similarity_histogram"`
	// WordsHistogram counts the outputs by their length, in at most ten intervals of equal width.
	WordsHistogram []WordCountBucket `json:"words_histogram"`
	// MostChanged holds at most one page of pairs. The least similar pair comes first.
	MostChanged []ChangedPair `json:"most_changed"`
}

// Quartiles holds the three values that divide sorted figures into four equal parts.
type Quartiles struct {
	Q1     Decimal `json:"q1"` // lower quartile
	Median Decimal `json:"median"`
	Q3     Decimal `json:"q3"` // upper quartile
}

// WordCountBucket counts the outputs that have at least From words but fewer than Below.
type WordCountBucket struct {
	From  uint64 `json:"from"`
	Below uint64 `json:"below"`
	A     uint64 `json:"a"` // number of outputs of runs in which the variable has the value A
	B     uint64 `json:"b"` // number of outputs of runs in which the variable has the value B
}

// ChangedPair holds the seqs of two runs, and how much the output changed.
type ChangedPair struct {
	A            uint64   `json:"a"`                       // seq of run A
	B            uint64   `json:"b"`                       // seq of run B
	Similarity   Decimal  `json:"similarity"`              // fraction of the words and marks that stay the same
	LengthChange *Decimal `json:"length_change,omitempty"` // relative change in number of words; nil if A has none
	// Name is a readable name of the input. It is set only if the request has names=true.
	Name *ReadableName `json:"name,omitempty"`
}

// TextDiff holds the difference between two texts, word by word.
type TextDiff struct {
	ContentName  string     `json:"of"` // name of the compared content, such as output
	A            DiffedText `json:"a"`
	B            DiffedText `json:"b"`
	Similarity   Decimal    `json:"similarity"`              // fraction of the words and marks that stay the same
	LengthChange *Decimal   `json:"length_change,omitempty"` // relative change in number of words; nil if A has none
	LowerBound   bool       `json:"bounded,omitempty"`       // the texts are so long that Similarity is a lower bound
	Edits        []TextEdit `json:"edits"`                   // parts of the diff, in the order of the text
}

// DiffedText is one of two compared texts.
type DiffedText struct {
	Seq    uint64 `json:"seq"`    // seq of the record that contains the text
	SHA256 string `json:"sha256"` // SHA-256 of the text's bytes
	TextLength
}

// TextEdit is a part of a diff. Leaving out the deleted parts yields text B. Leaving out the inserted parts
// yields text A, except that white space can differ.
type TextEdit struct {
	Op   EditOp `json:"op"`   // which of the two texts contain the part
	Text string `json:"text"` // the part; taken from B if both texts contain it
}

// EditOp states which of the two texts contain a part of a diff.
type EditOp string

// Operations of a [TextEdit].
const (
	EditEqual  EditOp = "equal"  // both texts contain the part
	EditDelete EditOp = "delete" // only A contains the part
	EditInsert EditOp = "insert" // only B contains the part
)

// ReadableName is a readable name for a hash. At least one of Label and Words is present.
type ReadableName struct {
	// Label is the value of a label that the records have: prompt, system_prompt or config. It is
	// present only if the first and the last run with the system prompt have the same value.
	Label string `json:"label,omitempty"`
	// Words holds the first words of the text on one line, at most 100 characters. Words from content are
	// present only if the caller is allowed to read content and the record has not been redacted.
	Words     string `json:"words,omitempty"`
	Truncated bool   `json:"cut,omitempty"` // true if the text continues after Words
}

// RunNames holds readable names for the input, the prompt and the output of a run.
type RunNames struct {
	Model        string        `json:"model"`                   // name of the model
	Temperature  json.Number   `json:"temperature,omitempty"`   // sampling temperature; "" if unknown
	Input        *ReadableName `json:"input,omitempty"`         // name of the payload; nil if unknown
	SystemPrompt *ReadableName `json:"system_prompt,omitempty"` // name of the system prompt; nil if unknown
	Output       *ReadableName `json:"output,omitempty"`        // name of the output; nil if unknown
}

// NameOf returns the readable name of the run's input or system prompt. It returns "" if the value
// has no name, or if the variable is neither input nor system_prompt.
func (n *RunNames) NameOf(variable string) string {
	if n == nil || variable != "input" && variable != "system_prompt" {
		return ""
	}
	name := n.Input
	if variable == "system_prompt" {
		name = n.SystemPrompt
	}
	switch {
	case name == nil:
		return ""
	case name.Label != "":
		return name.Label
	case name.Truncated:
		return name.Words + "…"
	}
	return name.Words
}
