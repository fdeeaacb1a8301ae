package fargate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

const (
	failedScheduling = "FailedScheduling"
	// longestMessage is the longest message of an event that API servers take, in bytes.
	longestMessage = 1024
	// eventTimeout is the time that an API server has to take an event: what is told of is then recorded all the same.
	eventTimeout = 10 * time.Second
	// longestName is the longest part of a pod's name in that of an event, in bytes.
	longestName = 200
)

// cutMessage returns a text that an event and a condition may have.
func cutMessage(text string) string {
	if len(text) <= longestMessage {
		return text
	}
	return client.Cut(text[:longestMessage-8]) + " ..."
}

// event emits an event as fargate-scheduler. Its name is a hash of reason and text, so a repeated event is patched, not
// created; count is how often it happened. Failures are logged and ignored.
func (p *podPass) event(ctx context.Context, kind, reason string, count int, text string) {
	namespace, name := p.info.namespace, p.info.name
	if p.server == nil || name == "" {
		return
	}
	text = cutMessage(text)
	sum := sha256.Sum256([]byte(p.uid + "\x00" + reason + "\x00" + text))
	now := metav1.NewTime(p.c.now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: name[:min(len(name), longestName)] + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: name,
			UID: types.UID(p.uid)},
		Reason: reason, Message: text, Type: kind, Count: int32(min(count, 1<<30)), //nolint:gosec // it is bounded
		Source: corev1.EventSource{Component: fargate.SchedulerName}, FirstTimestamp: now, LastTimestamp: now,
		ReportingController: fargate.SchedulerName,
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	events := p.server.scheduler.CoreV1().Events(namespace)
	_, err := events.Create(ctx, event, metav1.CreateOptions{FieldManager: fargate.SchedulerManager})
	if apierrors.IsAlreadyExists(err) && count > 1 {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"count": event.Count, "lastTimestamp": now}); err == nil {
			_, err = events.Patch(ctx, event.Name, types.MergePatchType, patch,
				metav1.PatchOptions{FieldManager: fargate.SchedulerManager})
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		p.c.log.Debug("cannot record event for Fargate pod", "cluster", p.cluster.Name, "pod", namespace+"/"+name,
			"error", client.Cut(err.Error()))
	}
}

// warn is event for what keeps a pod from being scheduled.
func (p *podPass) warn(ctx context.Context, text string) {
	p.event(ctx, corev1.EventTypeWarning, failedScheduling, 1, text)
}
