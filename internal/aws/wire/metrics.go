package wire

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coracle-eks/coracle/internal/metrics"
)

var (
	requestDurations = metrics.Declare.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metrics.Namespace, Name: "request_duration_seconds", Buckets: metrics.Latency,
		Help: "How long requests to the AWS APIs took, by service, operation and HTTP status code.",
	}, []string{"service", "operation", "code"})

	requestErrors = metrics.Declare.NewCounterVec(prometheus.CounterOpts{
		Namespace: metrics.Namespace, Name: "request_errors_total",
		Help: "Requests to the AWS APIs that were answered with an error, by service, operation and AWS error code.",
	}, []string{"service", "operation", "error"})

	decisionDurations = metrics.Declare.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: metrics.Namespace, Name: "authorization_duration_seconds", Buckets: metrics.Latency,
		Help: "How long decisions of IAM on requests took, by decision (allowed, denied or error).",
	}, []string{"decision"})
)

// observe records how a request was answered. What cannot be told of a request that was refused early is empty.
func observe(service *Service, c *call, status int, took time.Duration) {
	name := ""
	if service != nil {
		name = service.Name
	}
	requestDurations.WithLabelValues(name, c.operation, strconv.Itoa(status)).Observe(took.Seconds())
}

// observeDecision records how long an authorizer took.
func observeDecision(err error, took time.Duration) {
	decision := "allowed"
	var denied *Denied
	var refused *Error
	switch {
	case err == nil:
	case errors.As(err, &denied), errors.As(err, &refused) && refused.Status == http.StatusForbidden:
		decision = "denied"
	default:
		decision = "error"
	}
	decisionDurations.WithLabelValues(decision).Observe(took.Seconds())
}
