package event

// Stage is one node of a run-DAG: its name and its hash.
type Stage struct{ Name, Hash []byte }

// DAG is what a run_dag event says (1.4). What is null or absent is nil.
type DAG struct {
	Root, QuestionHash, CacheKey []byte

	Stages []Stage
	// Dimensions are the cache-key dimensions, by name, in the order of the
	// event; a value is nil for null.
	Dimensions []Stage

	Shape, FailureStage, AuditMode []byte
}

// DAG reads a run_dag event.
func (e *Event) DAG() DAG {
	var r DAG
	for name, value := range e.Detail.Members() {
		switch string(name.Text()) {
		case "hashes":
			r.Root = text(value.Member("root"))
			r.QuestionHash = text(value.Member("question_hash"))
			r.CacheKey = text(value.Member("cache_key"))
		case "nodes":
			for node := range value.Elements() {
				r.Stages = append(r.Stages, Stage{text(node.Member("stage")), text(node.Member("hash"))})
			}
		case "cache_dimensions":
			for dimension, v := range value.Members() {
				r.Dimensions = append(r.Dimensions, Stage{dimension.Text(), text(v)})
			}
		case "shape":
			r.Shape = text(value)
		case "failure_stage":
			r.FailureStage = text(value)
		case "audit_mode":
			r.AuditMode = text(value)
		}
	}
	return r
}
