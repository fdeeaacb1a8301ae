package clusterinsight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// maxVersions and maxPaths bound what is kept of a component whose versions users choose.
	maxVersions, maxPaths = 32, 100
	// maxVersion is the length of the longest version that is taken for one.
	maxVersion = 64
)

// userAgent is in the form of EKS's other components in the audit log.
const userAgent = "eks-cluster-insights/v0.0.0 (linux/amd64) kubernetes/$Format"

// observe reads the versions of kubelets and of kube-proxy from the cluster.
func (c *Controller) observe(
	ctx context.Context, cluster record.Cluster, plane record.ControlPlane, in *record.Insights,
) error {
	config, err := c.o.Config(ctx, cluster, authenticator.ManagedUser)
	if err != nil {
		return err
	}
	k, err := client.New(config, cluster.Name, userAgent)
	if err != nil {
		return err
	}
	defer k.Close()
	clients, err := kubernetes.NewForConfigAndClient(k.Config, k.HTTP)
	if err != nil {
		return err
	}
	var kubelets, proxies []record.InsightVersion
	if _, err = client.EachPage(ctx, metav1.ListOptions{}, clients.CoreV1().Nodes().List, func(page *corev1.NodeList) {
		for _, n := range page.Items {
			kubelets = count(kubelets, n.Status.NodeInfo.KubeletVersion, "/api/v1/nodes/"+n.Name)
		}
	}); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if _, err = client.EachPage(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"},
		clients.AppsV1().DaemonSets(metav1.NamespaceSystem).List, func(page *appsv1.DaemonSetList) {
			for _, d := range page.Items {
				path := "/apis/apps/v1/namespaces/" + d.Namespace + "/daemonsets/" + d.Name
				for _, container := range d.Spec.Template.Spec.Containers {
					proxies = count(proxies, imageVersion(container.Image), path)
				}
			}
		}); err != nil {
		return fmt.Errorf("list the DaemonSets of kube-proxy: %w", err)
	}
	in.Kubelets = bounded(sorted(kubelets), plane.Version)
	in.Proxies = bounded(sorted(proxies), plane.Version)
	return nil
}

// imageVersion returns the version in the reference of an image of kube-proxy, "v1.35.4" of
// ".../eks/kube-proxy:v1.35.4-minimal-eksbuild.1"; empty for other images.
func imageVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndexByte(image, '/')
	name, tag, _ := strings.Cut(image[slash+1:], ":")
	if !strings.Contains(name, "kube-proxy") {
		return ""
	}
	version, _, _ := strings.Cut(tag, "-")
	return version
}

// count adds an object with a version to the others.
func count(all []record.InsightVersion, version, path string) []record.InsightVersion {
	if minorOf(version) == 0 || len(version) > maxVersion {
		return all
	}
	i := slices.IndexFunc(all, func(v record.InsightVersion) bool { return v.Version == version })
	if i < 0 {
		if len(all) == maxVersions {
			return all
		}
		i, all = len(all), append(all, record.InsightVersion{Version: version})
	}
	all[i].Count++
	if len(all[i].Paths) < maxPaths {
		all[i].Paths = append(all[i].Paths, path)
	}
	return all
}

func sorted(all []record.InsightVersion) []record.InsightVersion {
	slices.SortFunc(all, func(a, b record.InsightVersion) int { return strings.Compare(a.Version, b.Version) })
	return all
}
