package vpcresource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// component is the reporter of events.
	component = "vpc-resource-controller"
	// version is upstream's, as the controller tells it of nodes.
	version = "v1.8.1"

	// longestMessage is the longest message of an event that API servers take, in bytes; longestName is the longest part
	// of an object's name in that of the event.
	longestMessage, longestName = 1024, 200
	// eventTimeout is the time that an API server has to take an event.
	eventTimeout = 10 * time.Second
)

// emit records an event about an object. Its name is a hash of what it says, so that the same is said once while it
// lives. An event that cannot be recorded is nobody's reason to stop.
func (s *server) emit(ctx context.Context, about corev1.ObjectReference, kind, reason, message string) {
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage-8], "") + " ..."
	}
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	sum := sha256.Sum256([]byte(string(about.UID) + "\x00" + reason + "\x00" + withoutRequestID(message)))
	now := metav1.NewTime(s.o.Clock.Now())
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_, err := s.core.Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: about.Name[:min(len(about.Name), longestName)] + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: about, Reason: reason, Message: message, Type: kind, Count: 1,
		Source: corev1.EventSource{Component: component}, FirstTimestamp: now, LastTimestamp: now,
		ReportingController: component,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.o.Log.Debug("cannot record an event", "cluster", s.cluster.Name, "object", about.Name, "error",
			kubeclient.Cut(err.Error()))
	}
}

// withoutRequestID returns a message without the ID of a request to AWS, which differs each time.
func withoutRequestID(message string) string {
	before, rest, found := strings.Cut(message, "RequestID: ")
	if _, after, more := strings.Cut(rest, ","); found && more {
		return before + after
	}
	return message
}

// describe returns the text of an error for logs and events.
func describe(err error) string { return record.Reason(err.Error()) }

// codeOf returns the code with which AWS refuses a request; "" for other errors.
func codeOf(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return ""
}
