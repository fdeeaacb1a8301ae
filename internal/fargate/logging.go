package fargate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

const (
	// LoggingNamespace is the namespace of the ConfigMap that configures the log router of all Fargate pods of a cluster.
	LoggingNamespace = "aws-observability"
	// LoggingConfigMap is the name of that ConfigMap.
	LoggingConfigMap = "aws-logging"

	// LoggingEnabled is the value of the annotation [LoggingAnnotation] of a pod whose logs are routed, and the reason of
	// the event.
	LoggingEnabled = "LoggingEnabled"
	// LoggingDisabled is the reason of the event otherwise, a warning.
	LoggingDisabled = "LoggingDisabled"

	// The other values of the annotation.
	loggingNotFound = LoggingDisabled + ": LOGGING_CONFIGMAP_NOT_FOUND"
	loggingInvalid  = LoggingDisabled + ": LOGGING_CONFIGMAP_INVALID"
	// loggingUnavailable is Coracle's own: on AWS there is every service that a valid output sends to.
	loggingUnavailable = LoggingDisabled + ": LOGGING_OUTPUT_UNAVAILABLE"
)

// Logging has the settings of a cluster's log router.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
type Logging struct {
	Data map[string]string // flb_log_cw, filters.conf, output.conf, parsers.conf
}

// LoggingOf returns the settings in a ConfigMap that [CheckLogging] found good.
func LoggingOf(m *corev1.ConfigMap) Logging {
	read := make(map[string]string)
	for _, key := range []string{fluentbit.KeyProcessLog, fluentbit.KeyFilters, fluentbit.KeyOutputs,
		fluentbit.KeyParsers} {
		if value, ok := m.Data[key]; ok {
			read[key] = value
		}
	}
	return Logging{Data: read}
}

// CheckLogging returns what a pod is told about its logs: the value of the annotation [LoggingAnnotation], and the text
// of the event. Namespace and ConfigMap are nil when they do not exist. The namespace's label is not asked for: it
// makes the webhook see the ConfigMap, and what the webhook has not seen is validated here.
// https://github.com/awsdocs/amazon-eks-user-guide/issues/452
func CheckLogging(namespace *corev1.Namespace, m *corev1.ConfigMap) (annotation, event string) {
	if namespace == nil || m == nil {
		return loggingNotFound, fmt.Sprintf("Disabled logging because aws-logging configmap was not found. "+
			"configmap %q not found", LoggingConfigMap)
	}
	if err := ValidateLogging(m.Data); err != nil {
		reason := err.Error()
		var mistake *fluentbit.Error
		if errors.As(err, &mistake) {
			reason = mistake.Reason // EKS does not say where it is
		}
		return loggingInvalid, "Disabled logging for pod due to invalid configmap. " + reason +
			". Please fix the logging configmap"
	}
	if names := unavailable(m.Data); names != "" {
		return loggingUnavailable, "Disabled logging for pod because the log router does not support the output plugins " +
			names + ". Use cloudwatch_logs"
	}
	return LoggingEnabled, "Successfully enabled logging for pod"
}

// unavailable returns the names of the outputs of settings that are valid, when the log router sends to none of them;
// empty otherwise.
func unavailable(data map[string]string) string {
	config, err := fluentbit.Parse(data)
	if err != nil || slices.ContainsFunc(config.Outputs, func(o fluentbit.Output) bool { return o.CloudWatch != nil }) {
		return ""
	}
	return strings.Join(config.Unavailable(), ", ")
}

// ValidateLogging returns what is wrong with the data of the ConfigMap, in EKS's words: its size, its keys, and what
// they hold.
func ValidateLogging(data map[string]string) error { return fluentbit.Validate(data) }
