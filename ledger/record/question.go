package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// QuestionHash contains the hash of a question in one mode. If it comes from DecodeCacheLookup, it
// also contains the resulting cache key; otherwise CacheKey is empty.
type QuestionHash struct {
	// Mode is rules.QuestionModeStrict or rules.QuestionModeEquivalence. Hash and CacheKey are in
	// hexadecimal.
	Mode, Hash, CacheKey string
}

// decodeAlone parses a request body that is not a record, and calls decode with its root. Any error
// is a *strict.Error.
func decodeAlone(body []byte, decode func(g *runDAG, d *strict.Decoder, root pyjson.Value)) error {
	var document pyjson.Document
	if err := document.ParseLimited(body, DefaultLimits().MaxJSONValues); err != nil {
		return strict.NewSyntaxError(err)
	}
	d := new(strict.Decoder)
	decode(&runDAG{r: new(Record)}, d, document.Root())
	return d.Err()
}

// DecodeQuestion decodes the request body {question, question_mode} and computes the question's
// hash. If the body is not valid, the error is a *strict.Error.
func DecodeQuestion(body []byte) (q QuestionHash, err error) {
	err = decodeAlone(body, func(g *runDAG, d *strict.Decoder, root pyjson.Value) {
		o := d.Object(root, "", "question", "question_mode")
		if !o.Member("question").IsGiven() {
			o.ReportMissing("question")
		}
		hash := g.questionHash(o)
		q = QuestionHash{Mode: string(g.QuestionMode), Hash: string(hash)}
	})
	return q, err
}

// ComputeCacheKey decodes a request body with the dimensions of a cache key, and computes the key.
// If the body is not valid, the error is a *strict.Error.
func ComputeCacheKey(body []byte) (key string, err error) {
	err = decodeAlone(body, func(g *runDAG, d *strict.Decoder, root pyjson.Value) {
		g.readDimensions(d.Object(root, "", rules.CacheDimensions[:]...), "")
		if !d.HasProblems() {
			key = g.keyWith(nil)
		}
	})
	return key, err
}

// DecodeCacheLookup decodes the request body {question, cache_dimensions}. It returns the
// question's hash and the cache key in each mode, the strict mode first. It ignores the dimension
// question_hash. If the body is not valid, the error is a *strict.Error.
func DecodeCacheLookup(body []byte) (modes []QuestionHash, err error) {
	err = decodeAlone(body, func(g *runDAG, d *strict.Decoder, root pyjson.Value) {
		o := d.Object(root, "", "question", "cache_dimensions")
		question := o.RequiredWTF8("question")
		dimensions := o.Member("cache_dimensions")
		if !dimensions.IsGiven() {
			o.ReportMissing("cache_dimensions")
			return
		}
		g.readDimensions(d.Object(dimensions, o.MemberPointer("cache_dimensions"), rules.CacheDimensions[:]...), "question_hash")
		if d.HasProblems() {
			return
		}
		for _, mode := range [...]string{rules.QuestionModeStrict, rules.QuestionModeEquivalence} {
			hash := rules.AppendHex(nil, rules.QuestionHash(question, mode == rules.QuestionModeStrict))
			modes = append(modes, QuestionHash{mode, string(hash), g.keyWith(hash)})
		}
	})
	return modes, err
}

// keyWith returns the cache key for the decoded dimensions. If question is not nil, it replaces the
// dimension question_hash.
func (g *runDAG) keyWith(question []byte) string {
	values := make([][]byte, len(g.dimensions))
	for i, d := range g.dimensions {
		if values[i] = d.value; d.name == "question_hash" && question != nil {
			values[i] = question
		}
	}
	return string(rules.AppendHex(nil, rules.CacheKey(values)))
}
