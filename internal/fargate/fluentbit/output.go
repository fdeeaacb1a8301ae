package fluentbit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// OutputNames are the output plugins that EKS allows.
var OutputNames = []string{"es", "firehose", "kinesis_firehose", "cloudwatch", "cloudwatch_logs", "kinesis"}

// Output is an [OUTPUT] section.
type Output struct {
	// Name is the name of the plugin.
	Name string
	// Match says which records it takes.
	Match Match
	// CloudWatch are the properties of the plugins cloudwatch_logs and cloudwatch. It is nil for the others: they are
	// valid as on AWS, but the services that they send to are not part of Coracle, and the log router does not send
	// there.
	CloudWatch *CloudWatch
}

// CloudWatch sends records to CloudWatch Logs. https://docs.fluentbit.io/manual/pipeline/outputs/cloudwatch
type CloudWatch struct {
	Region string
	// GroupName and StreamName are names; StreamPrefix is followed by the tag, and set if StreamName is not.
	GroupName, StreamName, StreamPrefix string
	// GroupTemplate and StreamTemplate make the names; the names above are used where a record has not all parts.
	GroupTemplate, StreamTemplate Template
	// LogKey is the key of the value that is sent in the place of the whole record; empty for the whole.
	LogKey string
	// LogFormat is the value of the header x-amzn-logs-format, such as "json/emf"; empty for none.
	LogFormat string
	// AutoCreateGroup creates log groups, with RetentionDays unless that is 0, GroupClass unless it is empty, and Tags.
	AutoCreateGroup bool
	RetentionDays   int32
	GroupClass      string
	Tags            map[string]string
	// RoleARN is the role to assume; empty for none.
	RoleARN, ExternalID string
	// Endpoint and STSEndpoint are URLs of other endpoints of the services; empty for AWS's.
	Endpoint, STSEndpoint string
	// Retries is how often sending is tried again after an error that is not temporary; -1 for ever.
	Retries int
}

// retentionDays are the days for which log groups can keep events.
var retentionDays = []int{0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557,
	2922, 3288, 3653}

// awsProperties are the properties that Fluent Bit's outputs for AWS share; outputProperties are those of all outputs.
var (
	outputProperties = []string{"Alias", "Log_Level", "Log_Suppress_Interval", "Workers", "tls", "tls.verify",
		"tls.debug", "tls.vhost", "tls.verify_hostname", "tls.min_version", "tls.max_version", "tls.ciphers",
		"net.connect_timeout", "net.connect_timeout_log_error", "net.io_timeout", "net.keepalive",
		"net.keepalive_idle_timeout", "net.keepalive_max_recycle", "net.max_worker_connections", "net.dns.mode",
		"net.dns.resolver", "net.dns.prefer_ipv4", "net.dns.prefer_ipv6", "net.source_address",
		"net.tcp_keepalive", "net.tcp_keepalive_time", "net.tcp_keepalive_interval", "net.tcp_keepalive_probes",
		"net.proxy_env_ignore", "storage.total_limit_size"}
	streamProperties = []string{"region", "endpoint", "sts_endpoint", "role_arn", "external_id", "profile", "log_key",
		"time_key", "time_key_format", "compression", "simple_aggregation", "auto_retry_requests", "port", "host"}
	// otherProperties are the properties of the outputs whose services Coracle does not have.
	otherProperties = map[string][]string{
		"es": {"Host", "Port", "Path", "Compress", "Buffer_Size", "Pipeline", "AWS_Auth", "AWS_Region", "AWS_STS_Endpoint",
			"AWS_Role_ARN", "AWS_External_ID", "AWS_Service_Name", "AWS_Profile", "Cloud_ID", "Cloud_Auth", "HTTP_User",
			"HTTP_Passwd", "HTTP_API_Key", "Index", "Type", "Logstash_Format", "Logstash_Prefix", "Logstash_Prefix_Key",
			"Logstash_Prefix_Separator", "Logstash_DateFormat", "Time_Key", "Time_Key_Format", "Time_Key_Nanos",
			"Include_Tag_Key", "Tag_Key", "Generate_ID", "Id_Key", "Write_Operation", "Replace_Dots", "Trace_Output",
			"Trace_Error", "Current_Time_Index", "Suppress_Type_Name"},
		"kinesis_firehose": append([]string{"delivery_stream"}, streamProperties...),
		"firehose": append([]string{"delivery_stream", "data_keys", "replace_dots", "credentials_endpoint",
			"sts_credentials_endpoint"}, streamProperties...),
		"kinesis": append([]string{"stream", "partition_key", "append_newline", "data_keys", "replace_dots", "aggregation",
			"experimental_concurrency", "experimental_concurrency_retries", "http_request_timeout",
			"credentials_endpoint", "kinesis_endpoint", "sts_credentials_endpoint"}, streamProperties...),
	}
	requiredProperties = map[string][]string{"kinesis_firehose": {"region", "delivery_stream"},
		"firehose": {"region", "delivery_stream"}, "kinesis": {"region", "stream"}}
)

func newOutput(s *section, budget *regexBudget) (Output, error) {
	s.budget = budget
	o := Output{Name: strings.ToLower(s.stringValue("Name", ""))}
	s.required("Name")
	if s.err != nil {
		return o, s.err
	}
	if !slices.Contains(OutputNames, o.Name) {
		return o, s.newError("Name", fmt.Sprintf("%.60s is not a supported output plugin", s.name),
			"use "+orList(OutputNames))
	}
	o.Match = s.match()
	s.ignored(outputProperties...)
	retries := s.retries()
	if o.Name == "cloudwatch" || o.Name == "cloudwatch_logs" {
		o.CloudWatch = newCloudWatch(s, o.Name == "cloudwatch")
		o.CloudWatch.Retries = retries
	} else {
		s.ignored(otherProperties[o.Name]...)
		for _, key := range requiredProperties[o.Name] {
			s.required(key)
		}
	}
	return o, s.checkUnused()
}

// retries returns how often something is tried again; -1 for ever.
func (s *section) retries() int {
	p := s.property("Retry_Limit")
	if p == nil {
		return 1
	}
	switch strings.ToLower(p.value) {
	case "no_limits", "false", "off":
		return -1
	case "no_retries":
		return 0
	}
	return s.intValue("Retry_Limit", 1, 1, 1000)
}

func newCloudWatch(s *section, golang bool) *CloudWatch {
	c := &CloudWatch{Region: s.stringValue("region", ""), GroupName: s.stringValue("log_group_name", ""),
		StreamName: s.stringValue("log_stream_name", ""), StreamPrefix: s.stringValue("log_stream_prefix", ""),
		LogKey: s.stringValue("log_key", ""), LogFormat: s.stringValue("log_format", ""),
		AutoCreateGroup: s.boolValue("auto_create_group", false), RoleARN: s.stringValue("role_arn", ""),
		ExternalID: s.stringValue("external_id", ""), Endpoint: s.endpoint("endpoint"),
		STSEndpoint: s.endpoint("sts_endpoint")}
	s.required("region")
	s.required("log_group_name")
	if p := s.property("region"); p != nil && strings.Trim(p.value, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		s.recordError(p, fmt.Sprintf("region is %.60q, which is not the code of a Region", p.value),
			"write it like us-east-1")
	}
	if p := s.property("log_format"); p != nil && (strings.Contains(c.LogFormat, "\r") || len(c.LogFormat) > 100) {
		s.recordError(p, "log_format is not valid", "use json/emf, or remove it")
	}
	days := s.intValue("log_retention_days", 0, 0, 3653)
	if s.err == nil && !slices.Contains(retentionDays, days) {
		s.err = s.newError("log_retention_days", fmt.Sprintf("log_retention_days is %d, which CloudWatch Logs does not allow",
			days), "use 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827 or 3653")
	}
	c.RetentionDays = int32(days)
	if s.err == nil && (c.StreamName == "") == (c.StreamPrefix == "") {
		s.err = s.newError("log_stream_name", "either log_stream_name or log_stream_prefix is required", "set one of the two")
	}
	template := func(key string, p *property, parse func(string) (Template, error)) Template {
		if p == nil {
			return nil
		}
		t, err := parse(p.value)
		if err != nil {
			s.recordError(p, fmt.Sprintf("%s is not valid: %v", key, err), "correct it")
		}
		return t
	}
	if golang {
		// The Go plugin has templates in the names, and other names where a record lacks a part.
		if strings.Contains(c.GroupName, "$(") {
			c.GroupTemplate = template("log_group_name", s.property("log_group_name"), parseGoTemplate)
			c.GroupName = "fluentbit-default"
		}
		if strings.Contains(c.StreamName, "$(") {
			c.StreamTemplate = template("log_stream_name", s.property("log_stream_name"), parseGoTemplate)
			c.StreamName = "/fluentbit-default"
		}
		if p := s.property("default_log_group_name"); p != nil && c.GroupTemplate != nil {
			c.GroupName = p.value
		}
		if p := s.property("default_log_stream_name"); p != nil && c.StreamTemplate != nil {
			c.StreamName = p.value
		}
		c.Tags = s.tags("new_log_group_tags")
		s.boolValue("auto_create_stream", true)
		s.ignored("credentials_endpoint", "log_stream_name_separator")
		return c
	}
	c.GroupTemplate = template("log_group_template", s.property("log_group_template"), parseTemplate)
	c.StreamTemplate = template("log_stream_template", s.property("log_stream_template"), parseTemplate)
	c.GroupClass = s.choiceValue("log_group_class", "", "STANDARD", "INFREQUENT_ACCESS")
	s.boolValue("auto_retry_requests", true)
	s.boolValue("add_entity", false)
	// The metrics are those of inputs that Fargate does not have. The profile is the pod execution role's.
	s.ignored("metric_namespace", "metric_dimensions", "extra_user_agent", "profile", "port")
	return c
}

// awsHost matches the hosts of the APIs that the router asks, with a port. Its submatches are the Regions: others of
// amazonaws.com are customers', such as logs.s3.amazonaws.com, which is a bucket.
var awsHost = regexp.MustCompile(
	`^((logs|sts)(-fips)?\.([a-z0-9-]+)|vpce-[a-z0-9-]+\.(logs|sts)(-fips)?\.([a-z0-9-]+)\.vpce|sts)` +
		`\.amazonaws\.com(\.cn)?(:443)?$`)

// regionCode matches the codes of Regions, and no other parts of names, such as s3.
var regionCode = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}$`)

// endpoint returns the URL of an endpoint of AWS in the Region of the output, which may be a host alone. Others would
// get requests with a signature of the pod execution role, good for AWS as well.
func (s *section) endpoint(key string) string {
	p := s.property(key)
	if p == nil {
		return ""
	}
	host := strings.TrimSuffix(strings.TrimPrefix(p.value, "https://"), "/")
	const ofService, ofEndpoint = 4, 7 // submatches
	m, region := awsHost.FindStringSubmatch(host), s.stringValue("region", "")
	if m == nil || m[1] != "sts" && (m[ofService]+m[ofEndpoint] != region || !regionCode.MatchString(region)) {
		s.recordError(p, fmt.Sprintf("%s is %.60q, which is not a host of AWS in the Region of the output, with https alone",
			p.key, p.value), "write it like logs.us-east-1.amazonaws.com")
	}
	return "https://" + host
}

// tags returns tags that are written like key=value,key=value.
func (s *section) tags(key string) map[string]string {
	p := s.property(key)
	if p == nil {
		return nil
	}
	tags := map[string]string{}
	for _, pair := range strings.Split(p.value, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || name == "" || len(tags) >= 50 {
			s.recordError(p, fmt.Sprintf("%s has %.60q, which is not a tag", p.key, pair),
				"write at most 50 tags like key=value,key=value")
			break
		}
		tags[name] = value
	}
	return tags
}
