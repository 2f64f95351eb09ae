package wire_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon"
	"colophon/client/wire"
)

// exchange holds the types of an operation's request body and response body. A type is nil if there
// is no body or the body is not JSON.
type exchange struct{ request, answer any }

var operations = map[string]exchange{
	"postIPCRecord":        {wire.IPCRecord{}, wire.Receipt{}},
	"postRunDAG":           {wire.RunDAG{}, wire.Receipt{}},
	"postCitationSet":      {wire.CitationSet{}, wire.Receipt{}},
	"postPathFingerprint":  {wire.PathFingerprint{}, wire.Receipt{}},
	"postBatch":            {}, // parts lists the types of its NDJSON lines
	"postState":            {wire.StateChange{}, wire.Receipt{}},
	"postNote":             {wire.Note{}, wire.Receipt{}},
	"postStateChanges":     {wire.StateChangeRequest{}, wire.StateChangeResult{}},
	"deleteContent":        {wire.ContentRedaction{}, wire.Receipt{}},
	"postRedactions":       {wire.RedactionRequest{}, wire.RedactionResult{}},
	"putValidation":        {wire.PathValidation{}, wire.Receipt{}},
	"getSource":            {nil, wire.SourceAnswer{}},
	"putSource":            {wire.SourceRegistration{}, wire.Receipt{}},
	"deleteSource":         {wire.SourceRevocation{}, wire.Receipt{}},
	"listProjects":         {nil, wire.Page[wire.ProjectRow]{}},
	"listPaths":            {nil, wire.Page[wire.PathRow]{}},
	"getPathHistory":       {nil, wire.Page[wire.PathVersion]{}},
	"listBuilds":           {nil, wire.Page[wire.BuildRow]{}},
	"listGonePaths":        {nil, wire.Page[wire.PathRow]{}},
	"postValidations":      {wire.PathValidationsRequest{}, wire.PathValidationsResult{}},
	"compareBuilds":        {nil, wire.Page[wire.PathDifference]{}},
	"listPathCollisions":   {nil, wire.Page[wire.PathCollision]{}},
	"listGroups":           {nil, wire.RunPage[wire.RunGroup]{}},
	"getGroup":             {nil, wire.GroupAnswer{}},
	"listValues":           {nil, wire.Page[wire.RunValue]{}},
	"search":               {nil, wire.SearchAnswer{}},
	"listRates":            {nil, wire.Rates{}},
	"getLive":              {nil, wire.LiveSummary{}},
	"getExample":           {},
	"getSignIn":            {nil, wire.SignInMethods{}},
	"attributeChange":      {nil, wire.DriftAttribution{}},
	"listTimeline":         {nil, wire.RunPage[wire.TimelineRow]{}},
	"listEffects":          {nil, wire.EffectsAnswer{}},
	"diffTexts":            {nil, wire.TextDiff{}},
	"reproduce":            {wire.Rerun{}, wire.Reproduction{}},
	"listRunDAGs":          {nil, wire.Page[wire.ListedRunDAG]{}},
	"lookUpRunDAG":         {wire.LookupRequest{}, wire.LookupAnswer{}},
	"computeCacheKey":      {wire.CacheDimensions{}, wire.CacheKeyAnswer{}},
	"computeQuestionHash":  {wire.QuestionHashRequest{}, wire.QuestionHashAnswer{}},
	"listRunGroups":        {nil, wire.Page[wire.RunDAGGroup]{}},
	"compareRunDAGs":       {nil, wire.RunDAGComparison{}},
	"compareRuns":          {nil, wire.RunsComparison{}},
	"listDivergence":       {nil, wire.Page[wire.DivergenceRow]{}},
	"getByCacheKey":        {nil, wire.CachedRunDAG{}},
	"getStageProof":        {nil, wire.StageProof{}},
	"countFailures":        {nil, wire.FailuresAnswer{}},
	"listCitationDrift":    {nil, wire.Page[wire.CitationDriftRow]{}},
	"listConflicts":        {nil, wire.Page[wire.ChunkConflict]{}},
	"listStale":            {nil, wire.Page[wire.StaleCitationRow]{}},
	"listByChunk":          {nil, wire.Page[wire.CitingSetRow]{}},
	"listBySource":         {nil, wire.Page[wire.CitingSetRow]{}},
	"getCitationsDocument": {nil, wire.CitationsDocument{}},
	"pinnedRetrieval":      {wire.RetrievalRequest{}, wire.PinnedRetrieval{}},
	"listSources":          {nil, wire.Page[wire.Source]{}},
	"listProducers":        {nil, wire.Page[wire.ProducerRow]{}},
	"getProducer":          {nil, wire.ProducerAnswer{}},
	"compute":              {nil, wire.ComputeAnswer{}}, // the request body is a record of any of the four kinds
	"listRecords":          {nil, wire.Page[wire.ListedRecord]{}},
	"listRun":              {nil, wire.Page[wire.ListedRecord]{}},
	"getRecord":            {nil, wire.RecordAnswer{}},
	"getReceipt":           {nil, wire.Receipt{}},
	"getNestedProof":       {nil, wire.NestedProof{}},
	"getContent":           {},
	"listEvents":           {}, // parts lists the types of its NDJSON lines
	"exportQuestion":       {}, // parts lists the types of its NDJSON lines
	"getEvent":             {nil, wire.EventLine{}},
	"getInclusionProof":    {nil, wire.ProofAnswer{}},
	"getConsistencyProof":  {nil, wire.ProofAnswer{}},
	"getCheckpoint":        {},
	"getKey":               {nil, wire.KeyHistory{}},
	"getMemberSecret":      {nil, wire.PayloadMemberSecret{}},
	"getIndexPart":         {nil, wire.IndexPart{}},
	"getTile":              {},
	"makeSnapshot":         {nil, wire.Snapshot{}},
	"listLedgers":          {nil, wire.LedgerList{}},
	"createLedger":         {wire.CreateLedgerRequest{}, wire.LedgerDescription{}},
	"getLedger":            {nil, wire.LedgerDescription{}},
	"freezeLedger":         {nil, wire.LedgerDescription{}},
	"putVisibility":        {wire.VisibilityChange{}, wire.LedgerDescription{}},
	"putUnregistered":      {wire.UnregisteredSourcesChange{}, wire.LedgerDescription{}},
	"putOTLPContent":       {wire.OTLPContentChange{}, wire.LedgerDescription{}},
	"changeKeys":           {wire.KeyRotationStep{}, wire.Receipt{}},
	"getStats":             {nil, wire.Stats{}},
	"getVersion":           {nil, wire.Versions{}},
	"home":                 {},
	"getDocs":              {},
	"getDocsFile":          {}, // serves files that are not JSON, apart from the contract itself
	"getConsoleFile":       {},
	"getContract":          {},
	"getHealth":            {},
	"getReadiness":         {},
	"getMetrics":           {},
}

// parts lists the types of schemas that do not describe the whole body of any operation. They
// describe lines of NDJSON, and JSON that other types leave undecoded.
var parts = map[string]exchange{
	"IPCRecordLine":           {request: wire.BatchLine{}},
	"RunDAGLine":              {request: wire.BatchLine{}},
	"CitationSetLine":         {request: wire.BatchLine{}},
	"PathFingerprintLine":     {request: wire.BatchLine{}},
	"ForeignRecordLine":       {request: wire.ForeignRecordLine{}},
	"StateChangeLine":         {request: wire.BatchLine{}},
	"ValidationLine":          {request: wire.BatchLine{}},
	"NoteLine":                {request: wire.BatchLine{}},
	"StateChangeOf":           {request: wire.StateChangeLine{}},
	"ValidationOf":            {request: wire.ValidationLine{}},
	"NoteOn":                  {request: wire.NoteLine{}},
	"Problem":                 {answer: wire.Problem{}},
	"EventLine":               {answer: wire.EventLine{}},
	"ExportLine":              {answer: wire.ExportLine{}},
	"Event":                   {answer: wire.Event{}},
	"IPCRecordEvent":          {answer: wire.IPCRecordEvent{}},
	"RunDAGEvent":             {answer: wire.RunDAGEvent{}},
	"CitationSetEvent":        {answer: wire.CitationSetEvent{}},
	"PathFingerprintEvent":    {answer: wire.PathFingerprintEvent{}},
	"RecordStateChangedEvent": {answer: wire.RecordStateChangedEvent{}},
	"PathValidatedEvent":      {answer: wire.PathValidatedEvent{}},
	"NoteEvent":               {answer: wire.NoteEvent{}},
	"SourceEvent":             {answer: wire.SourceEvent{}},
	"ContentRedactedEvent":    {answer: wire.ContentRedactedEvent{}},
	"LedgerCreatedEvent":      {answer: wire.LedgerCreatedEvent{}},
	"RecordRefusedEvent":      {answer: wire.RecordRefusedEvent{}},
	"KeyRotatedEvent":         {answer: wire.KeyRotatedEvent{}},
}

// rawMembers lists members whose structure the contract describes but that package wire keeps as raw
// JSON. Their exact bytes matter, or another package parses them.
var rawMembers = []string{
	"Receipt.event", "RecordAnswer.event", "ListedRecord.event", "EventLine.event", "Event.record", "ComputeAnswer.record",
	"BatchLine.record", "NestedProof.text", "LookupAnswer.answer_text", "CacheDimensions.schema_version", "CacheDimensions.canonicalization_version", "CacheDimensions.chunking_version",
}

// required lists members that the contract requires but that the Go types omit if they are empty.
// The members of Receipt are present only in full receipts. The temperature and max_tokens members
// will become optional in the contract.
var required = []string{
	"Receipt.event", "Receipt.inclusion", "Receipt.checkpoint",
	"IPCRecord.temperature", "IPCRecord.max_tokens", "IPCRecordEvent.temperature", "IPCRecordEvent.max_tokens",
}

// neverNull lists schemas whose values can be null only in requests. Responses omit such a member
// instead.
var neverNull = []string{"RunID", "Timestamp", "Labels", "Producer"}

// foreign lists operations and schemas whose JSON is defined by OTLP. OpenTelemetry exporters call
// these operations and bring their own types.
var foreign = []string{"postTraces", "postLogs", "OTLPTracesRequest", "OTLPLogsRequest", "OTLPAnswer", "OTLPStatus"}

// checker compares schemas of the contract with Go types.
type checker struct {
	*testing.T
	seen    map[string]bool // components that have been compared with a type
	request bool
}

// Every member of a schema matches a field of its Go type in name, optionality, and kind, and the
// type has no other fields. Every operation and every object of the contract has a Go type, except
// those that OTLP defines.
func TestTypesMatchTheContract(t *testing.T) {
	contract, err := openapi3.NewLoader().LoadFromData(colophon.OpenAPI)
	require.NoError(t, err)
	c := checker{T: t, seen: make(map[string]bool)}
	var ids, excepted []string
	for _, path := range contract.Paths.Map() {
		for _, operation := range path.Operations() {
			if slices.Contains(foreign, operation.OperationID) {
				excepted = append(excepted, operation.OperationID)
				continue
			}
			ids = append(ids, operation.OperationID)
			e, known := operations[operation.OperationID]
			assert.True(t, known, "operation %s has no types", operation.OperationID)
			if body := operation.RequestBody; e.request != nil {
				c.request = true
				c.compare(operation.OperationID, body.Value.Content["application/json"].Schema, reflect.TypeOf(e.request))
			}
			for status, response := range operation.Responses.Map() {
				if content := response.Value.Content["application/json"]; strings.HasPrefix(status, "2") && content != nil && operation.OperationID != "getDocsFile" {
					c.request = false
					assert.NotNil(t, e.answer, operation.OperationID)
					c.compare(operation.OperationID, content.Schema, reflect.TypeOf(e.answer))
				}
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(operations)), ids, "the operations in the map and in the contract differ")
	for name, part := range parts {
		schema := contract.Components.Schemas[name]
		require.NotNil(t, schema, name)
		c.seen[name] = true
		if c.request = part.request != nil; c.request {
			c.compare(name, schema, reflect.TypeOf(part.request))
		} else {
			c.compare(name, schema, reflect.TypeOf(part.answer))
		}
	}
	for name, schema := range contract.Components.Schemas {
		switch {
		case slices.Contains(foreign, name):
			excepted = append(excepted, name)
		case len(schema.Value.Properties) > 0:
			assert.True(t, c.seen[name], "no type was compared with the schema %s", name)
		}
	}
	assert.ElementsMatch(t, foreign, excepted, "the names in foreign and in the contract differ")
}

var (
	raw    = reflect.TypeFor[json.RawMessage]()
	number = reflect.TypeFor[json.Number]()
	ranges = reflect.TypeFor[wire.SeqRange]()
)

// compare compares a schema with the type t, which must not be a pointer. at says where the schema
// occurs, for failure messages.
func (c checker) compare(at string, ref *openapi3.SchemaRef, t reflect.Type) {
	c.Helper()
	schema := c.resolve(ref)
	switch {
	case len(schema.OneOf) > 0 && t == reflect.TypeFor[wire.Receipt]():
		for _, kind := range schema.OneOf {
			c.compare(at, kind, t)
		}
		return
	case len(schema.OneOf) > 0 && t == ranges:
		return
	case t == raw || t.Kind() == reflect.Interface:
		open := schema.AdditionalProperties.Has == nil || *schema.AdditionalProperties.Has
		assert.True(c, schema.Type == nil || schema.Type.Is("object") && len(schema.Properties) == 0 && open ||
			schema.Type.Is("array") && c.resolve(schema.Items).Type == nil, "%s is raw JSON, but the contract describes it", at)
		return
	}
	require.NotNil(c, schema.Type, "%s can be any JSON in the contract", at)
	kinds := map[string][]reflect.Kind{
		"string": {reflect.String}, "boolean": {reflect.Bool}, "number": {reflect.Float64},
		"integer": {reflect.Uint64, reflect.Int64, reflect.Int}, "array": {reflect.Slice}, "object": {reflect.Struct, reflect.Map},
	}[schema.Type.Slice()[0]]
	if schema.Format == "byte" {
		kinds = []reflect.Kind{reflect.Slice}
	}
	assert.True(c, slices.Contains(kinds, t.Kind()) || (schema.Type.Is("integer") || schema.Type.Is("number")) && t == number, "%s is %s, but the contract says %v", at, t, schema.Type)
	switch {
	case schema.Type.Is("array"):
		c.compare(at+"[]", schema.Items, c.value(at, schema.Items, t.Elem(), true))
	case t.Kind() == reflect.Struct:
		c.members(schema, t)
	case t.Kind() == reflect.Map:
		for name, member := range schema.Properties {
			c.compare(at+"."+name, member, c.value(at, &openapi3.SchemaRef{Value: &openapi3.Schema{Nullable: true}}, t.Elem(), true))
		}
		if rest := schema.AdditionalProperties.Schema; rest != nil {
			c.compare(at+".*", rest, c.value(at, rest, t.Elem(), true))
		}
	}
}

// members compares the members of a schema with the fields of a struct.
func (c checker) members(schema *openapi3.Schema, t reflect.Type) {
	c.Helper()
	typeName, _, _ := strings.Cut(t.Name(), "[")
	fields := make(map[string]bool)
	for _, field := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			assert.True(c, field.Anonymous, "%s.%s has no tag", typeName, field.Name)
			continue
		}
		at := typeName + "." + name
		fields[name] = true
		member := schema.Properties[name]
		if member == nil && slices.Contains(required[:3], at) || member == nil && at == "ProofAnswer.checkpoint" {
			continue // present only in a full receipt or a consistency proof
		}
		require.NotNil(c, member, "%s is not in the contract", at)
		given := slices.Contains(schema.Required, name) && !slices.Contains(required, at)
		assert.Equal(c, given, option == "", "%s is optional in only one of the type and the contract", at)
		if slices.Contains(rawMembers, at) {
			continue
		}
		value := c.value(at, member, field.Type, given)
		c.compare(at, member, value)
		if option == "omitempty" && value == field.Type && value != number {
			c.leavesOut(at, member, value)
		}
	}
	for name := range schema.Properties {
		assert.True(c, fields[name], "%s lacks %s", typeName, name)
	}
}

// value returns the type of a member without the pointer or Nullable wrapper that makes it
// nullable. The test fails if the wrapper does not match the contract.
func (c checker) value(at string, ref *openapi3.SchemaRef, t reflect.Type, given bool) reflect.Type {
	c.Helper()
	schema := c.resolve(ref)
	nullable := schema.Nullable && !c.request
	for _, name := range neverNull {
		nullable = nullable && !strings.HasSuffix(ref.Ref, "/"+name)
	}
	if strings.HasPrefix(t.Name(), "Nullable[") {
		assert.True(c, nullable && !given, "%s must not be Nullable: it cannot be both absent and null", at)
		return t.Field(1).Type.Elem()
	}
	nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
	if nullable {
		assert.True(c, given && nilable, "%s can be null in the contract, but not in the type", at)
	}
	if t.Kind() == reflect.Pointer {
		assert.True(c, nullable || !given || t.Elem().Kind() == reflect.Struct, "%s can be null in the type, but not in the contract", at)
		return t.Elem()
	}
	return t
}

// leavesOut checks that the contract does not allow the zero value of t, which omitempty would
// omit.
func (c checker) leavesOut(at string, ref *openapi3.SchemaRef, t reflect.Type) {
	c.Helper()
	zero, has := map[reflect.Kind]any{reflect.String: "", reflect.Bool: false, reflect.Uint64: 0.0, reflect.Int64: 0.0}[t.Kind()]
	if !has || slices.Contains(neverEmpty, at) {
		return
	}
	schema := *c.resolve(ref)
	schema.Nullable = false
	assert.Error(c, schema.VisitJSON(zero, openapi3.EnableFormatValidation()), "%s is omitted if it is %#v, but the contract allows this value", at, zero)
}

// neverEmpty lists members that are never "", although the contract allows the empty string.
var neverEmpty = []string{
	"Receipt.path_id", "RecordAnswer.path_id", "RecordLinks.receipt", "CreateLedgerRequest.origin", "KeyRotatedEvent.handover",
	"IPCRecordEvent.run_id", "IPCRecordEvent.payload_schema", "RunDAGEvent.run_id", "CitationSetEvent.run_id",
	"PathFingerprintEvent.run_id", "RecordRefusedEvent.run_id",
	"FieldProblem.field", "FieldProblem.claimed", "FieldProblem.computed",
}

// resolve follows references and single-element allOfs, and marks every component along the way as
// seen.
func (c checker) resolve(ref *openapi3.SchemaRef) *openapi3.Schema {
	for {
		if name, found := strings.CutPrefix(ref.Ref, "#/components/schemas/"); found {
			c.seen[name] = true
		}
		if len(ref.Value.AllOf) != 1 {
			return ref.Value
		}
		ref = ref.Value.AllOf[0]
	}
}
