package fargate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of a pod. API servers decide how much a pod has, and what is done with a part of one may take as long as there
// are others.
const (
	maxContainers  = 1000 // of all kinds
	maxVolumes     = 1000
	maxClaims      = 100 // each is read, and its volume
	maxConstraints = 100 // of the topology spread, and label keys of each

	// maxReasons and maxReason bound the reasons of one kind why a pod is not supported; maxReason is in bytes.
	maxReasons, maxReason = 20, 256
)

// CheckBounds returns an error for a pod that has more of something than Fargate looks at.
func CheckBounds(pod *corev1.Pod) error {
	check := func(n, most int, what string) error {
		if n > most {
			return fmt.Errorf("the pod has %d %s, more than the %d that Fargate supports", n, what, most)
		}
		return nil
	}
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	if err := check(containers, maxContainers, "containers"); err != nil {
		return err
	}
	if err := check(len(pod.Spec.Volumes), maxVolumes, "volumes"); err != nil {
		return err
	}
	if err := check(len(VolumeClaims(pod)), maxClaims, "persistent volume claims"); err != nil {
		return err
	}
	err := check(len(pod.Spec.TopologySpreadConstraints), maxConstraints, "topology spread constraints")
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if err == nil {
			err = check(len(c.MatchLabelKeys), maxConstraints, "label keys of a topology spread constraint")
		}
	}
	return err
}

// cut returns a text, or what is shown of a long one.
func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + " ..."
}
