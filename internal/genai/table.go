package genai

import "strings"

// detailsEvent is the name of the event that describes a whole generation, in a log or on a span.
const detailsEvent = "gen_ai.client.inference.operation.details"

// choiceEvent is the name of the event that contains one of the model's answers.
const choiceEvent = "gen_ai.choice"

// messageEvents maps the name of each message event to the default role of its message.
var messageEvents = map[string]string{
	"gen_ai.system.message":    "system",
	"gen_ai.user.message":      "user",
	"gen_ai.assistant.message": "assistant",
	"gen_ai.tool.message":      "tool",
	choiceEvent:                "assistant",
}

// Lowercase values of the attribute gen_ai.operation.name.
var (
	generations = map[string]bool{"chat": true, "text_completion": true, "generate_content": true, "completion": true,
		"chat.completion": true, "chat_completion": true, "chat.completions": true, "text_generation": true, "generate_text": true, "responses": true}
	// These operations are not generations. A generation within one of them has its own span.
	otherOperations = map[string]bool{"embeddings": true, "embedding": true, "embed": true, "execute_tool": true, "create_agent": true, "invoke_agent": true, "invoke_workflow": true,
		"retrieval": true, "rerank": true, "moderation": true}
)

// kindNames lists the attributes in which some libraries state the kind of a span. Each library
// has its own names for kinds. generationKinds lists the kinds that are generations, in lower
// case. Spans of any other kind are not generations.
var (
	kindNames       = []string{"openinference.span.kind", "langfuse.observation.type", "mlflow.spanType"}
	generationKinds = map[string]bool{"llm": true, "generation": true, "chat_model": true}
)

// Names of attributes, in order of preference. TestDocumentedAttributes checks that docs/otlp.md
// mentions them.
var (
	operationNames   = []string{"gen_ai.operation.name"}
	modelNames       = []string{"gen_ai.request.model", "llm.request.model", "llm.model_name", "ai.model.id", "langfuse.observation.model.name"}
	answererNames    = []string{"gen_ai.response.model", "llm.response.model", "ai.response.model"}
	fingerprintNames = []string{"openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint", "gen_ai.response.system_fingerprint", "gen_ai.openai.system_fingerprint"}

	temperatureNames = []string{"gen_ai.request.temperature", "llm.request.temperature", "llm.temperature"}
	maxTokensNames   = []string{"gen_ai.request.max_tokens", "llm.request.max_tokens"}
	seedNames        = []string{"gen_ai.request.seed", "gen_ai.openai.request.seed", "llm.request.seed"}

	instructionNames = []string{"gen_ai.system_instructions"}
	messageNames     = []string{"gen_ai.input.messages", "ai.prompt.messages"}
	promptNames      = []string{"gen_ai.prompt", "ai.prompt", "input.value", "langfuse.observation.input", "mlflow.spanInputs", "gcp.vertex.agent.llm_request", "request_data"}
	answerNames      = []string{"gen_ai.output.messages"}
	completionNames  = []string{"gen_ai.completion", completionText, "ai.response.object", "output.value", "langfuse.observation.output", "mlflow.spanOutputs", "gcp.vertex.agent.llm_response", "response_data"}
	responseNames    = []string{"gen_ai.response.id", "ai.response.id"}
	toolNames        = []string{"gen_ai.tool.definitions"}
	parameterNames   = []string{"llm.invocation_parameters", "langfuse.observation.model.parameters"}
	eventsName       = "events"
)

// Attributes in which Vercel's AI SDK sends the text and the tool calls of an answer.
const (
	completionText = "ai.response.text"
	callsName      = "ai.response.toolCalls"
)

// itemTypes lists the types of the elements of a chat that are tool calls or tool results instead
// of messages. OpenAI's Responses API uses such elements.
var itemTypes = map[string]bool{"function_call": true, "function_call_output": true}

// Prefixes of attributes whose names continue with an index, such as gen_ai.prompt.0.content.
var (
	messagePrefixes    = []string{"gen_ai.prompt", "llm.input_messages", "llm.prompts"}
	completionPrefixes = []string{"gen_ai.completion", "llm.output_messages", "llm.completions", "llm.choices"}
	toolPrefixes       = []string{"llm.tools", "llm.request.functions"}
)

// named is the name of a member or label, and the names of the attributes that can contain
// its value.
type named struct {
	member string
	names  []string
}

// parameters lists the attributes that become members of the payload.
var parameters = []named{
	{"frequency_penalty", []string{"gen_ai.request.frequency_penalty", "llm.frequency_penalty"}},
	{"n", []string{"gen_ai.request.choice.count"}},
	{"output_type", []string{"gen_ai.output.type"}},
	{"presence_penalty", []string{"gen_ai.request.presence_penalty", "llm.presence_penalty"}},
	{"reasoning_effort", []string{"gen_ai.request.reasoning_effort"}},
	{"response_format", []string{"gen_ai.openai.request.response_format", "gen_ai.request.structured_output_schema"}},
	{"stop", []string{"gen_ai.request.stop_sequences", "llm.chat.stop_sequences"}},
	{"top_k", []string{"gen_ai.request.top_k", "llm.top_k"}},
	{"top_p", []string{"gen_ai.request.top_p", "llm.top_p"}},
}

// invocation lists the members of llm.invocation_parameters that become members of the payload.
// Other members are omitted, because some of them contain credentials.
var invocation = map[string]bool{
	"candidate_count": true, "frequency_penalty": true, "function_call": true, "functions": true, "logit_bias": true, "logprobs": true,
	"min_p": true, "n": true, "parallel_tool_calls": true, "presence_penalty": true, "reasoning": true, "reasoning_effort": true,
	"repetition_penalty": true, "response_format": true, "stop": true, "stop_sequences": true, "thinking": true, "tool_choice": true,
	"tools": true, "top_k": true, "top_logprobs": true, "top_p": true, "verbosity": true,
}

// Names that llm.invocation_parameters uses for the parameters with a separate field in a record.
var (
	invokedTemperature = []string{"temperature"}
	invokedMaxTokens   = []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict"}
	invokedSeed        = []string{"seed", "random_seed"}
)

// counts lists the attributes that become token counts in the usage member of a record.
var counts = []named{
	{"cache_creation_tokens", []string{"gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens", "llm.token_count.prompt_details.cache_write"}},
	{"cache_read_tokens", []string{"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens", "llm.token_count.prompt_details.cache_read"}},
	{"input_tokens", []string{"gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens"}},
	{"output_tokens", []string{"gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion", "llm.usage.completion_tokens"}},
	{"reasoning_tokens", []string{"gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens", "llm.token_count.completion_details.reasoning"}},
}

// labels lists the attributes that become labels, starting with the most important ones. The label
// service precedes them. All other labels from the resource follow them.
var labels = []named{
	{"conversation", []string{"gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id"}},
	{"response_id", responseNames},
	{"prompt_name", []string{"gen_ai.prompt.name", "traceloop.prompt.key", "langfuse.observation.prompt.name", "prompt.id"}},
	{"prompt_version", []string{"gen_ai.prompt.version", "traceloop.prompt.version", "langfuse.observation.prompt.version", "llm.prompt_template.version"}},
	{"provider", []string{"gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "llm.vendor"}},
	{"operation", []string{"gen_ai.operation.name", "llm.request.type"}},
	{"finish_reason", []string{"gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason"}},
	{"error", []string{"error.type"}},
	{"agent", []string{"gen_ai.agent.name", "agent.name"}},
}

// resourceLabels lists the attributes of the resource that become labels.
var resourceLabels = []named{
	{"service", []string{"service.name"}},
	{"service_version", []string{"service.version"}},
	{"environment", []string{"deployment.environment.name", "deployment.environment"}},
}

// operation returns the name of the operation in lower case, or "" if the item does not name one.
func (s *source) operation() string { return strings.ToLower(s.text(operationNames...)) }

// isOtherOperation reports whether an item names an operation that is not a generation.
func (s *source) isOtherOperation() bool { return otherOperations[s.operation()] }

// isGeneration reports whether a span is a single call to a model that generates text. hasMessages
// says whether some of the span's events are messages.
func (s *source) isGeneration(hasMessages bool) bool {
	operation := s.operation()
	if generations[operation] {
		return true
	}
	if otherOperations[operation] {
		return false
	}
	for _, name := range kindNames {
		// MLflow encodes strings as JSON, with quotation marks.
		if kind := strings.ToLower(strings.Trim(s.text(name), `"`)); kind != "" && kind != "unknown" {
			return generationKinds[kind]
		}
	}
	switch s.text("llm.request.type") {
	case "chat", "completion":
		return true
	case "", "unknown":
	default:
		return false // another request, such as embedding or rerank
	}
	if s.text("traceloop.span.kind") != "" {
		return false // the span is a step that contains generations
	}
	model := s.text(modelNames...)
	if model == "" && s.text(answererNames...) == "" && s.text("gen_ai.provider.name", "gen_ai.system") == "" {
		return false
	}
	if hasMessages || s.hasContent() {
		return true
	}
	return s.has("gen_ai.request.model") && !(operation == "" && s.seemsOther(model))
}

// seemsOther reports whether the name, model, or attributes of a span suggest that it is
// not a generation. It is meant for spans that name no operation and have no content.
func (s *source) seemsOther(model string) bool {
	begin, _, _ := strings.Cut(strings.ToLower(s.title), " ")
	model = strings.ToLower(model)
	return otherOperations[begin] || strings.Contains(begin, "embed") || strings.Contains(begin, "rerank") ||
		strings.Contains(model, "embed") || strings.Contains(model, "rerank") ||
		strings.Contains(strings.ToLower(s.text("ai.operationId")), "embed") ||
		s.has("gen_ai.embeddings.dimension.count") || s.has("gen_ai.tool.name") || s.has("gen_ai.tool.call.id")
}

// hasContent reports whether an item has an input or an output in any dialect. It ignores
// input.value and output.value, which all kinds of spans have.
func (s *source) hasContent() bool {
	for name := range s.attributes {
		if !strings.HasPrefix(name, "gen_ai.") && !strings.HasPrefix(name, "llm.") {
			continue
		}
		for _, wanted := range [...]string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt.0.", "gen_ai.completion.0.",
			"llm.input_messages.", "llm.output_messages.", "llm.prompts.", "llm.completions."} {
			if strings.HasPrefix(name, wanted) {
				return true
			}
		}
	}
	return s.has("gen_ai.prompt") || s.has("gen_ai.completion")
}
