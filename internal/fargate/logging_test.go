package fargate

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const output = `[OUTPUT]
    Name cloudwatch_logs
    Match kube.*
    region eu-west-1
    log_group_name my-logs
    log_stream_prefix from-fluent-bit-
    auto_create_group true
`

const search = `[OUTPUT]
    Name es
    Match *
    Host search.example.com
    Port 443
    Index logs
    AWS_Auth On
    AWS_Region eu-west-1
    tls On
`

func TestCheckLogging(t *testing.T) {
	t.Parallel()
	namespace := &corev1.Namespace{}
	config := func(data map[string]string) *corev1.ConfigMap { return &corev1.ConfigMap{Data: data} }
	const missing = `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`
	for name, test := range map[string]struct {
		namespace         *corev1.Namespace
		config            *corev1.ConfigMap
		annotation, event string
	}{
		"no namespace": {nil, nil, "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND", missing},
		"no ConfigMap": {namespace, nil, "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND", missing},
		"enabled": {namespace, config(map[string]string{"output.conf": output}), "LoggingEnabled",
			"Successfully enabled logging for pod"},
		// https://github.com/DataDog/documentation/pull/24023
		"an output that is not supported": {namespace, config(map[string]string{
			"output.conf": "[OUTPUT]\n    Name amazon_data_firehose\n    Match kube.*\n"}),
			"LoggingDisabled: LOGGING_CONFIGMAP_INVALID", "Disabled logging for pod due to invalid configmap. " +
				"amazon_data_firehose is not a supported output plugin. Please fix the logging configmap"},
		"outputs of which none is available": {namespace, config(map[string]string{"output.conf": search}),
			"LoggingDisabled: LOGGING_OUTPUT_UNAVAILABLE", "Disabled logging for pod because the log router does not support " +
				"the output plugins es. Use cloudwatch_logs"},
		"outputs of which one is available": {namespace, config(map[string]string{"output.conf": search + output}),
			"LoggingEnabled", "Successfully enabled logging for pod"},
	} {
		annotation, event := CheckLogging(test.namespace, test.config)
		if annotation != test.annotation || event != test.event {
			t.Errorf("%s: %q and %q, want %q and %q", name, annotation, event, test.annotation, test.event)
		}
	}
}

func TestValidateLogging(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"a", "é"} {
		data := map[string]string{"output.conf": output, "parsers.conf": "#" + strings.Repeat(letter, 5299-len(output))}
		if err := ValidateLogging(data); err != nil {
			t.Errorf("5300 characters: %v", err)
		}
		data["parsers.conf"] += letter
		if err := ValidateLogging(data); err == nil || !strings.Contains(err.Error(), "5301 characters") {
			t.Errorf("5301 characters: %v", err)
		}
	}
}

func TestLoggingOf(t *testing.T) {
	t.Parallel()
	want := map[string]string{"flb_log_cw": "true", "filters.conf": "a", "output.conf": "b", "parsers.conf": "c"}
	data := maps.Clone(want)
	data["other"] = "d"
	if got := LoggingOf(&corev1.ConfigMap{Data: data}); !maps.Equal(got.Data, want) {
		t.Errorf("the settings are %q", got.Data)
	}
}
