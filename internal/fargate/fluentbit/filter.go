package fluentbit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FilterNames are the filter plugins that EKS allows.
var FilterNames = []string{"grep", "parser", "record_modifier", "rewrite_tag", "throttle", "nest", "modify",
	"kubernetes"}

// Filter is a [FILTER] section. One of the pointers is set: the plugin's.
type Filter struct {
	// Name is the name of the plugin.
	Name string
	// Match says which records pass it.
	Match Match

	Grep           *Grep
	Parser         *ParserFilter
	RecordModifier *RecordModifier
	RewriteTag     *RewriteTag
	Throttle       *Throttle
	Nest           *Nest
	Modify         *Modify
	Kubernetes     *Kubernetes
}

// Grep keeps or drops records. https://docs.fluentbit.io/manual/pipeline/filters/grep
type Grep struct {
	// Op is "legacy", "AND" or "OR".
	Op    string
	Rules []GrepRule
}

// GrepRule is a Regex or an Exclude of a [Grep].
type GrepRule struct {
	Exclude bool
	Key     Accessor
	Regex   *Regex
}

// ParserFilter parses a field. https://docs.fluentbit.io/manual/pipeline/filters/parser
type ParserFilter struct {
	Key Accessor
	// Parsers are tried in order.
	Parsers []*Parser
	// ReserveData keeps the other fields, PreserveKey the field that was parsed.
	ReserveData, PreserveKey bool
}

// RecordModifier adds and removes fields. https://docs.fluentbit.io/manual/pipeline/filters/record-modifier
type RecordModifier struct {
	Records []KeyValue
	// Remove and Allow are names of keys without regard to case; with * at the end, beginnings of names.
	Remove, Allow []string
	// UUIDKey is the key of a random UUID; empty for none.
	UUIDKey string
}

// KeyValue is a key with a text.
type KeyValue struct{ Key, Value string }

// RewriteTag emits records again with another tag. https://docs.fluentbit.io/manual/pipeline/filters/rewrite-tag
type RewriteTag struct{ Rules []RewriteRule }

// RewriteRule is a rule of [RewriteTag].
type RewriteRule struct {
	Key   Accessor
	Regex *Regex
	Tag   Template
	// Keep lets the record with the old tag pass too.
	Keep bool
}

// Throttle drops what is above a rate. https://docs.fluentbit.io/manual/pipeline/filters/throttle
type Throttle struct {
	// Rate is the number of records for each interval.
	Rate float64
	// Window is the number of intervals of which the average is taken, 1 to 10000.
	Window      int
	Interval    time.Duration
	PrintStatus bool
}

// Nest moves fields below a key, or up from it. https://docs.fluentbit.io/manual/pipeline/filters/nest
type Nest struct {
	// Lift moves fields up.
	Lift bool
	// Wildcards are the keys of the fields to nest; with * at the end, beginnings of keys.
	Wildcards []string
	// Under is the key below which fields are or will be.
	Under string
	// AddPrefix and RemovePrefix change the keys of the fields that are moved.
	AddPrefix, RemovePrefix string
}

// Modify applies rules to records that meet all conditions. https://docs.fluentbit.io/manual/pipeline/filters/modify
type Modify struct {
	Rules      []ModifyRule
	Conditions []Condition
}

// ModifyRule is a rule of [Modify].
type ModifyRule struct {
	// Op is the rule in lower case: "set", "add", "remove", "remove_wildcard", "remove_regex", "rename",
	// "hard_rename", "copy", "hard_copy", "move_to_start" or "move_to_end".
	Op         string
	Key, Value string
	// Regex is the expression of remove_regex.
	Regex *Regex
}

// Condition is a condition of [Modify].
type Condition struct {
	// Op is the condition in lower case, such as "key_value_equals".
	Op string
	// Key is the field, unless KeyRegex matches keys.
	Key      Accessor
	KeyRegex *Regex
	// Value is the text to compare with, unless ValueRegex matches values.
	Value      string
	ValueRegex *Regex
}

// Kubernetes adds the metadata of the pod. https://docs.fluentbit.io/manual/pipeline/filters/kubernetes
type Kubernetes struct {
	// BufferSize is the largest answer of the API server, in bytes; 0 for any.
	BufferSize int64
	// TagPrefix is what precedes the name of the log file in the tag.
	TagPrefix string
	// MergeLog parses the field log and adds its fields, below MergeLogKey if that is not empty.
	MergeLog     bool
	MergeLogKey  string
	MergeLogTrim bool
	// MergeParser parses the field instead of JSON's parser; nil for none.
	MergeParser *Parser
	// KeepLog keeps the field log after its fields were merged.
	KeepLog bool
	// LoggingParser and LoggingExclude let pods choose, with annotations fluentbit.io/parser and fluentbit.io/exclude.
	LoggingParser, LoggingExclude bool
	// What is added of the pod and its namespace.
	Labels, Annotations, OwnerReferences                         bool
	NamespaceLabels, NamespaceAnnotations, NamespaceMetadataOnly bool
	// RegexParser parses the tag in the place of the built-in expression; nil for none.
	RegexParser *Parser
	// UseTagForMeta takes names from the tag alone.
	UseTagForMeta bool
	// CacheTTL is the time for which metadata is kept before it is read again.
	CacheTTL time.Duration
}

// DefaultCacheTTL is the time for which EKS keeps the metadata of a pod, unless Kube_Meta_Cache_TTL says otherwise.
const DefaultCacheTTL = 30 * time.Minute

func newFilter(s *section, c *Config, budget *regexBudget) (Filter, error) {
	s.budget = budget
	f := Filter{Name: strings.ToLower(s.stringValue("Name", ""))}
	s.required("Name")
	if s.err != nil {
		return f, s.err
	}
	if !slices.Contains(FilterNames, f.Name) {
		return f, s.newError("Name", fmt.Sprintf("%.60s is not a supported filter plugin", s.name),
			"use "+orList(FilterNames))
	}
	f.Match = s.match()
	s.ignored("Alias", "Log_Level", "Log_Suppress_Interval")
	switch f.Name {
	case "grep":
		f.Grep = newGrep(s)
	case "parser":
		f.Parser = newParserFilter(s, c)
	case "record_modifier":
		f.RecordModifier = newRecordModifier(s)
	case "rewrite_tag":
		f.RewriteTag = newRewriteTag(s)
	case "throttle":
		f.Throttle = newThrottle(s)
	case "nest":
		f.Nest = newNest(s)
	case "modify":
		f.Modify = newModify(s)
	case "kubernetes":
		f.Kubernetes = newKubernetes(s, c)
	}
	return f, s.checkUnused()
}

func newGrep(s *section) *Grep {
	g := &Grep{Op: s.choiceValue("Logical_Op", "legacy", "legacy", "AND", "OR")}
	kinds := map[bool]bool{}
	for _, p := range s.allProperties("Regex", "Exclude") {
		key, expression, _ := strings.Cut(p.value, " ")
		expression = strings.TrimSpace(expression)
		if expression == "" {
			s.recordError(p, fmt.Sprintf("%s needs a key and a regular expression", p.key), "write "+p.key+" KEY REGEX")
			continue
		}
		rule := GrepRule{Exclude: strings.EqualFold(p.key, "Exclude"), Key: s.accessor(p, key),
			Regex: s.regex(p, expression)}
		kinds[rule.Exclude] = true
		g.Rules = append(g.Rules, rule)
	}
	if g.Op != "legacy" && len(kinds) > 1 && s.err == nil {
		s.err = s.newError("Logical_Op", "both Regex and Exclude are set with Logical_Op "+g.Op,
			"use one of the two, or two grep filters")
	}
	return g
}

// parser returns the parser that a property names.
func (s *section) parser(c *Config, p *property) *Parser {
	if p == nil {
		return nil
	}
	parser := c.Parser(p.value)
	if parser == nil {
		s.recordError(p, fmt.Sprintf("parser %.60q is not defined", p.value), "define it in parsers.conf")
	}
	return parser
}

func newParserFilter(s *section, c *Config) *ParserFilter {
	s.required("Key_Name")
	s.required("Parser")
	f := &ParserFilter{ReserveData: s.boolValue("Reserve_Data", false), PreserveKey: s.boolValue("Preserve_Key", false)}
	if p := s.property("Key_Name"); p != nil {
		f.Key = s.accessor(p, p.value)
	}
	for _, p := range s.allProperties("Parser") {
		f.Parsers = append(f.Parsers, s.parser(c, p))
	}
	s.ignored("Unescape_Key") // Fluent Bit takes it and ignores it
	return f
}

func newRecordModifier(s *section) *RecordModifier {
	f := &RecordModifier{UUIDKey: s.stringValue("Uuid_Key", "")}
	for _, p := range s.allProperties("Record") {
		words := fields(p.value, 2)
		if len(words) != 2 {
			s.recordError(p, "Record needs a key and a value", "write Record KEY VALUE")
			continue
		}
		f.Records = append(f.Records, KeyValue{words[0], words[1]})
	}
	for _, p := range s.allProperties("Remove_Key") {
		f.Remove = append(f.Remove, p.value)
	}
	for _, p := range s.allProperties("Allowlist_Key", "Whitelist_Key") {
		f.Allow = append(f.Allow, p.value)
	}
	if len(f.Remove) > 0 && len(f.Allow) > 0 && s.err == nil {
		s.err = s.newError("Allowlist_key", "both Remove_key and Allowlist_key are set", "use one of the two")
	}
	return f
}

func newRewriteTag(s *section) *RewriteTag {
	f := &RewriteTag{}
	s.required("Rule")
	for _, p := range s.allProperties("Rule") {
		words := fields(p.value, 4)
		if len(words) != 4 || !strings.HasPrefix(words[0], "$") {
			s.recordError(p, "Rule needs a key, a regular expression, a new tag, and whether to keep the record",
				"write Rule $KEY REGEX NEW_TAG KEEP, where KEEP is true or false")
			continue
		}
		rule := RewriteRule{Key: s.accessor(p, words[0]), Regex: s.regex(p, words[1])}
		var err error
		if rule.Tag, err = parseTemplate(words[2]); err != nil {
			s.recordError(p, fmt.Sprintf("the new tag is not valid: %v", err), "correct it")
		}
		var ok bool
		if rule.Keep, ok = parseBool(words[3]); !ok {
			s.recordError(p, fmt.Sprintf("%.60q is not a boolean", words[3]), "end the rule with true or false")
		}
		f.Rules = append(f.Rules, rule)
	}
	s.choiceValue("Emitter_Storage.type", "memory", "memory", "filesystem")
	s.sizeValue("Emitter_Mem_Buf_Limit", 0)
	s.ignored("Emitter_Name")
	return f
}

func newThrottle(s *section) *Throttle {
	f := &Throttle{Rate: 1, Window: s.intValue("Window", 5, 1, 10000), PrintStatus: s.boolValue("Print_Status", false),
		Interval: s.seconds("Interval", time.Second)}
	if p := s.property("Rate"); p != nil {
		var err error
		if f.Rate, err = strconv.ParseFloat(p.value, 64); err != nil || !(f.Rate > 0 && f.Rate < 1e9) {
			s.recordError(p, fmt.Sprintf("Rate is %.60q, which is not a number above 0", p.value), "correct it")
		}
	}
	if f.Interval < time.Millisecond && s.err == nil {
		s.err = s.newError("Interval", "Interval is too short", "write it like 1s or 5m")
	}
	return f
}

func newNest(s *section) *Nest {
	s.required("Operation")
	f := &Nest{Lift: s.choiceValue("Operation", "nest", "nest", "lift") == "lift"}
	for _, p := range s.allProperties("Wildcard") {
		f.Wildcards = append(f.Wildcards, p.value)
	}
	if p := s.property("Add_prefix", "Prefix_with"); p != nil {
		f.AddPrefix = p.value
	}
	f.RemovePrefix = s.stringValue("Remove_prefix", "")
	nest, lifted := s.stringValue("Nest_under", ""), s.stringValue("Nested_under", "")
	f.Under = nest + lifted
	switch {
	case s.err != nil:
	case f.AddPrefix != "" && f.RemovePrefix != "":
		s.err = s.newError("Remove_prefix", "both Add_prefix and Remove_prefix are set", "use one of the two")
	case nest != "" && lifted != "":
		s.err = s.newError("Nested_under", "both Nest_under and Nested_under are set",
			"use Nest_under to nest, Nested_under to lift")
	case f.Under == "":
		s.required(map[bool]string{false: "Nest_under", true: "Nested_under"}[f.Lift])
	case !f.Lift:
		s.required("Wildcard")
	}
	return f
}

// modifyArguments has the number of arguments of the rules of modify.
var modifyArguments = map[string]int{"set": 2, "add": 2, "remove": 1, "remove_wildcard": 1, "remove_regex": 1,
	"rename": 2, "hard_rename": 2, "copy": 2, "hard_copy": 2, "move_to_start": 1, "move_to_end": 1}

// conditions has the arguments of the conditions of modify: k a key, K an expression for keys, v and V for values.
var conditions = map[string]string{"key_exists": "k", "key_does_not_exist": "k", "a_key_matches": "K",
	"no_key_matches": "K", "key_value_equals": "kv", "key_value_does_not_equal": "kv", "key_value_matches": "kV",
	"key_value_does_not_match": "kV", "matching_keys_have_matching_values": "KV",
	"matching_keys_do_not_have_matching_values": "KV"}

func newModify(s *section) *Modify {
	f := &Modify{}
	for _, p := range s.properties {
		op := strings.ToLower(p.key)
		if op == "condition" {
			p.used = true
			f.Conditions = append(f.Conditions, newCondition(s, p))
			continue
		}
		n, ok := modifyArguments[op]
		if !ok {
			continue
		}
		p.used = true
		words := fields(p.value, n)
		if n == 1 {
			words = []string{unquote(p.value)}
		}
		if len(words) != n {
			s.recordError(p, fmt.Sprintf("%s needs a key and a value", p.key), "write "+p.key+" KEY VALUE")
			continue
		}
		rule := ModifyRule{Op: op, Key: words[0]}
		if n == 2 {
			rule.Value = words[1]
		}
		if op == "remove_regex" {
			rule.Regex = s.regex(p, rule.Key)
		}
		f.Rules = append(f.Rules, rule)
	}
	return f
}

func newCondition(s *section, p *property) (c Condition) {
	name, rest, _ := strings.Cut(p.value, " ")
	c.Op = strings.ToLower(name)
	kinds, ok := conditions[c.Op]
	if !ok {
		s.recordError(p, fmt.Sprintf("%.60q is not a condition", name), "use one of Fluent Bit's, such as Key_exists")
		return c
	}
	words := fields(rest, len(kinds))
	if len(words) != len(kinds) {
		s.recordError(p, fmt.Sprintf("condition %s needs %d arguments and has %d", name, len(kinds), len(words)),
			"correct it")
		return c
	}
	for i, kind := range kinds {
		switch kind {
		case 'k':
			c.Key = s.accessor(p, words[i])
		case 'K':
			c.KeyRegex = s.regex(p, words[i])
		case 'v':
			c.Value = words[i]
		case 'V':
			c.ValueRegex = s.regex(p, words[i])
		}
	}
	return c
}

func newKubernetes(s *section, c *Config) *Kubernetes {
	for _, key := range []string{"Kube_URL", "Kube_CA_File", "Kube_Token_Command", "Kube_Token_File"} {
		if p := s.property(key); p != nil {
			s.recordError(p, fmt.Sprintf("%s is a service owned configuration parameter and must not be specified", p.key),
				"remove it")
		}
	}
	f := &Kubernetes{
		BufferSize: s.sizeValue("Buffer_Size", 32000),
		TagPrefix:  s.stringValue("Kube_Tag_Prefix", "kube.var.log.containers."),
		MergeLog:   s.boolValue("Merge_Log", false), MergeLogKey: s.stringValue("Merge_Log_Key", ""),
		MergeLogTrim: s.boolValue("Merge_Log_Trim", true), KeepLog: s.boolValue("Keep_Log", true),
		MergeParser: s.parser(c, s.property("Merge_Parser")), RegexParser: s.parser(c, s.property("Regex_Parser")),
		LoggingParser: s.boolValue("K8S-Logging.Parser", false), LoggingExclude: s.boolValue("K8S-Logging.Exclude", false),
		Labels: s.boolValue("Labels", true), Annotations: s.boolValue("Annotations", true),
		OwnerReferences:       s.boolValue("Owner_References", false),
		NamespaceLabels:       s.boolValue("Namespace_Labels", false),
		NamespaceAnnotations:  s.boolValue("Namespace_Annotations", false),
		NamespaceMetadataOnly: s.boolValue("Namespace_Metadata_Only", false),
		UseTagForMeta:         s.boolValue("Use_Tag_For_Meta", false),
		CacheTTL:              s.seconds("Kube_Meta_Cache_TTL", DefaultCacheTTL),
	}
	// The connection to the API server, and what is kept of more pods than the machine's one, are Fargate's.
	s.boolValue("Use_Kubelet", false)
	s.boolValue("tls.verify", true)
	s.boolValue("tls.verify_hostname", false)
	s.boolValue("Cache_Use_Docker_Id", false)
	s.ignored("Kubelet_Host", "Kubelet_Port", "Kube_Token_TTL", "Kube_CA_Path", "Kube_Meta_Namespace_Cache_TTL",
		"DNS_Retries", "DNS_Wait_Time", "tls.debug", "tls.vhost")
	for _, key := range []string{"Use_Journal", "Dummy_Meta"} {
		if s.boolValue(key, false) && s.err == nil {
			s.err = s.newError(key, key+" is not available on Fargate", "remove it")
		}
	}
	return f
}
