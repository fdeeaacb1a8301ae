package fargate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// maxVolumes is the maximum size in bytes of the names and digests of a pod's volumes: they are kept with the machine,
// and an API server may return any number.
const maxVolumes = 16 << 10

// efsVolumes returns the digests of the persistent volumes that the claims of a pod are bound to, by the names of the
// volumes, or why the pod cannot run. The claims are read again for each machine, which mounts what is found here
// and nothing else: volumes may have been replaced since the pod was admitted, and may be replaced afterwards.
func (p *podPass) efsVolumes(ctx context.Context, pod *corev1.Pod) (
	digests map[string]string, problem string, err error) {
	ctx = withinClaims(ctx)
	digests, size := map[string]string{}, 0
	for _, name := range fargate.VolumeClaims(pod) {
		claim, volume, err := p.getClaim(ctx, pod.Namespace, name)
		if err != nil {
			return nil, "", err
		}
		if problem := fargate.ClaimProblem(name, claim, volume); problem != "" {
			return nil, client.Cut(problem), nil
		}
		csi := volume.Spec.CSI
		digest, err := fargatenode.VolumeDigest(csi.VolumeHandle, csi.VolumeAttributes, volume.Spec.MountOptions)
		if err != nil {
			return nil, "", err
		}
		if size += len(volume.Name) + len(digest); size > maxVolumes {
			return nil, fmt.Sprintf("the names of its volumes have more than %d bytes", maxVolumes), nil
		}
		digests[volume.Name] = digest
	}
	return digests, "", nil
}

// getClaim returns a persistent volume claim, and the persistent volume that it is bound to. Both are nil where they do
// not exist, as those cannot that have names which no path has: Kubernetes validates neither.
func (p *podPass) getClaim(ctx context.Context, namespace, name string) (
	claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, err error) {
	if len(path.IsValidPathSegmentName(name)) > 0 {
		return nil, nil, nil
	}
	core := p.server.scheduler.CoreV1()
	claim, err = core.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err == nil && claim.Spec.VolumeName != "" && len(path.IsValidPathSegmentName(claim.Spec.VolumeName)) == 0 {
		volume, err = core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			volume, err = nil, nil
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read persistent volume claim %s: %w", name, err)
	}
	return claim, volume, nil
}
