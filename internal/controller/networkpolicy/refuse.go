package networkpolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/networkpolicy"
	"github.com/coracle-eks/coracle/internal/record"
)

// impossible is the error of a policy that cannot be resolved or written as it is. It becomes an event, and no failure,
// which would hold the room of policies that can.
type impossible struct {
	text string
	// isOnlyNow is set where it depends on other policies, so that the policy is to be tried again.
	isOnlyNow bool
}

func (e *impossible) Error() string { return e.text }

func tooLarge(format string, values ...any) error {
	return &impossible{text: fmt.Sprintf(format, values...)}
}

// outcome is what comes of a pass.
type outcome int

// The outcomes, the worst last.
const (
	done         outcome = iota // also when the policy, or its namespace, is gone
	unresolvable                // until something about it changes
	refused                     // by the API server, for a reason that may go away
	failed                      // to be tried again at once
)

// failures are the errors of several requests.
type failures []error

func (f failures) Error() string { return errors.Join(f...).Error() }

func (f failures) Unwrap() []error { return f }

// asError returns nil where nothing has failed.
func (f failures) asError() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// together returns the errors of a pass that went on after some of them.
func together(all ...error) error {
	return failures(slices.DeleteFunc(all, func(err error) bool { return err == nil })).asError()
}

// outcomeOf returns the worst of the outcomes that an error of a pass stands for.
func outcomeOf(err error) outcome {
	if err == nil {
		return done
	}
	var several failures
	if errors.As(err, &several) {
		worst := done
		for _, one := range several {
			worst = max(worst, outcomeOf(one))
		}
		return worst
	}
	var wrong *impossible
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return done
	case errors.As(err, &wrong) && !wrong.isOnlyNow:
		return unresolvable
	case wrong != nil, errors.Is(err, kubeclient.ErrTooLarge):
		return refused
	case !errors.As(err, &status):
		return failed
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return refused
	}
	return failed
}

const (
	// longestMessage is the longest message of an event that API servers take, in bytes; longestName is the longest part
	// of a policy's name in that of the event.
	longestMessage, longestName = 1024, 200
	// eventTimeout is the time that an API server has to take an event.
	eventTimeout = 10 * time.Second

	eventReason = "FailedToResolve"
)

// warn emits an event about what has become of a policy: in the namespace default, where the policy is one of the whole
// cluster. Its name is a hash of the reason, so that the same is said once while the event lives.
func (k *client) warn(ctx context.Context, at types.NamespacedName, why error) error {
	text := record.Reason(why.Error())
	reason := string(apierrors.ReasonForError(why)) // texts of API servers have names made up
	var wrong *impossible
	if errors.As(why, &wrong) {
		reason = text
	}
	object := corev1.ObjectReference{Namespace: at.Namespace, Name: at.Name}
	namespace := at.Namespace
	if namespace == "" {
		p := k.view.clusterPolicy(at.Name)
		if p == nil {
			return nil
		}
		namespace = metav1.NamespaceDefault
		object.APIVersion, object.Kind, object.UID = networkpolicy.GroupVersion.String(), "ClusterNetworkPolicy", p.UID
	} else {
		p := k.view.policy(at)
		if p == nil {
			return nil
		}
		object.APIVersion, object.Kind, object.UID = networkingv1.SchemeGroupVersion.String(), "NetworkPolicy", p.UID
	}
	text = "The policy is not enforced as it is: " + text
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage-8], "") + " ..."
	}
	sum := sha256.Sum256([]byte(string(object.UID) + "\x00" + reason))
	now := metav1.Now()
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_, err := k.core.Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: at.Name[:min(len(at.Name), longestName)] + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: object, Reason: eventReason, Message: text, Type: corev1.EventTypeWarning, Count: 1,
		Source: corev1.EventSource{Component: user}, FirstTimestamp: now, LastTimestamp: now,
		ReportingController: user,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
