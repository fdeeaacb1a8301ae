package fargate

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// requests reads "250m 1Gi 30Gi": CPU, memory and ephemeral storage, of which the last ones may be missing and - stands
// for none.
func requests(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	for i, field := range strings.Fields(text) {
		if field != "-" {
			list[names[i]] = resource.MustParse(field)
		}
	}
	return list
}

func container(text string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests(text)}}
}

func sidecar(text string) corev1.Container {
	c, always := container(text), corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

// TestEverySize asks for exactly what each combination of Amazon's table has, and for a little more.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html
func TestEverySize(t *testing.T) {
	t.Parallel()
	table := []string{
		"0.25vCPU 0.5GB", "0.25vCPU 1GB", "0.25vCPU 2GB",
		"0.5vCPU 1GB", "0.5vCPU 2GB", "0.5vCPU 3GB", "0.5vCPU 4GB",
		"1vCPU 2GB", "1vCPU 3GB", "1vCPU 4GB", "1vCPU 5GB", "1vCPU 6GB", "1vCPU 7GB", "1vCPU 8GB",
		"2vCPU 4GB", "2vCPU 5GB", "2vCPU 6GB", "2vCPU 7GB", "2vCPU 8GB", "2vCPU 9GB", "2vCPU 10GB", "2vCPU 11GB",
		"2vCPU 12GB", "2vCPU 13GB", "2vCPU 14GB", "2vCPU 15GB", "2vCPU 16GB",
		"4vCPU 8GB", "4vCPU 9GB", "4vCPU 10GB", "4vCPU 11GB", "4vCPU 12GB", "4vCPU 13GB", "4vCPU 14GB", "4vCPU 15GB",
		"4vCPU 16GB", "4vCPU 17GB", "4vCPU 18GB", "4vCPU 19GB", "4vCPU 20GB", "4vCPU 21GB", "4vCPU 22GB", "4vCPU 23GB",
		"4vCPU 24GB", "4vCPU 25GB", "4vCPU 26GB", "4vCPU 27GB", "4vCPU 28GB", "4vCPU 29GB", "4vCPU 30GB",
		"8vCPU 16GB", "8vCPU 20GB", "8vCPU 24GB", "8vCPU 28GB", "8vCPU 32GB", "8vCPU 36GB", "8vCPU 40GB", "8vCPU 44GB",
		"8vCPU 48GB", "8vCPU 52GB", "8vCPU 56GB", "8vCPU 60GB",
		"16vCPU 32GB", "16vCPU 40GB", "16vCPU 48GB", "16vCPU 56GB", "16vCPU 64GB", "16vCPU 72GB", "16vCPU 80GB",
		"16vCPU 88GB", "16vCPU 96GB", "16vCPU 104GB", "16vCPU 112GB", "16vCPU 120GB",
	}
	var all []Size
	for _, c := range combinations {
		for _, m := range c.memory {
			all = append(all, Size{CPU: c.cpu, Memory: m, Storage: defaultStorage})
		}
	}
	if len(all) != len(table) {
		t.Fatalf("there are %d sizes, want %d", len(all), len(table))
	}
	for i, size := range all {
		if got := size.String(); got != table[i] {
			t.Errorf("size %d is %q, want %q", i, got, table[i])
		}
		pod := podOf(corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(size.CPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity((size.Memory-256)*mebibyte, resource.BinarySI),
		}}})
		if got, err := SizeOf(pod); err != nil || got != size {
			t.Errorf("exactly %s: %s %v", size, got, err)
		}
		memory := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
		memory.Add(resource.MustParse("1"))
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = memory
		got, err := SizeOf(pod)
		switch {
		case i == len(all)-1:
			if err == nil {
				t.Errorf("more than the largest: %s", got)
			}
		case err != nil || got.Memory <= size.Memory || got.CPU < size.CPU:
			t.Errorf("a byte more than %s: %s %v", size, got, err)
		}
	}
}

func TestSizeOf(t *testing.T) {
	t.Parallel()
	with := func(pod *corev1.Pod, change func(*corev1.PodSpec)) *corev1.Pod {
		change(&pod.Spec)
		return pod
	}
	inits := func(containers ...corev1.Container) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.InitContainers = containers }
	}
	const tooLarge = "Your pod's cpu/memory requirements exceed the max Fargate configuration"
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"nothing", podOf(container("")), "0.25vCPU 0.5GB"},
		{"only CPU", podOf(container("250m")), "0.25vCPU 0.5GB"},
		{"a bit of CPU", podOf(container("1m")), "0.25vCPU 0.5GB"},
		{"the components fit", podOf(container("250m 256Mi")), "0.25vCPU 0.5GB"},
		{"the components do not fit", podOf(container("250m 257Mi")), "0.25vCPU 1GB"},
		{"the example of the user guide", podOf(container("1 8Gi")), "2vCPU 9GB"},
		{"250m and 1000Mi", podOf(container("250m 1000Mi")), "0.25vCPU 2GB"},
		{"255m and 1000Mi", podOf(container("255m 1000Mi")), "0.5vCPU 2GB"},
		{"260m and 1750Mi", podOf(container("260m 1750Mi")), "0.5vCPU 2GB"},
		{"255m and 1800Mi", podOf(container("255m 1800Mi")), "0.5vCPU 3GB"},
		{"255m and 10Gi", podOf(container("255m 10Gi")), "2vCPU 11GB"},
		{"much CPU", podOf(container("9 10Gi")), "16vCPU 32GB"},
		{"steps of four", podOf(container("5 17Gi")), "8vCPU 20GB"},
		{"beyond eight vCPUs", podOf(container("1 60Gi")), "16vCPU 64GB"},
		{"CoreDNS", podOf(container("100m 70Mi")), "0.25vCPU 0.5GB"},
		{"decimal units", podOf(container("0.5 1G")), "0.5vCPU 2GB"},

		{"containers add up", podOf(container("250m 512Mi"), container("500m 1Gi")), "1vCPU 2GB"},
		{"init containers do not", with(podOf(container("250m 128Mi")),
			inits(container("250m 200Mi"), container("250m 200Mi"))), "0.25vCPU 0.5GB"},
		{"the largest init container counts", with(podOf(container("250m 128Mi")),
			inits(container("1 128Mi"), container("250m 3Gi"))), "1vCPU 4GB"},
		{"side-cars count with containers", with(podOf(container("250m 128Mi")), inits(sidecar("250m 256Mi"))),
			"0.5vCPU 1GB"},
		{"side-cars run beside later init containers", with(podOf(container("250m 128Mi")),
			inits(sidecar("500m 128Mi"), container("500m 128Mi"))), "1vCPU 2GB"},
		{"side-cars do not run beside earlier init containers", with(podOf(container("250m")),
			inits(container("500m"), sidecar("250m"))), "0.5vCPU 1GB"},
		{"the overhead of a runtime class", with(podOf(container("250m 128Mi")), func(s *corev1.PodSpec) {
			s.Overhead = requests("250m 128Mi")
		}), "0.5vCPU 1GB"},
		{"resources of the pod", with(podOf(container("250m 128Mi")), func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: requests("2 6Gi")}
		}), "2vCPU 7GB"},
		{"CPU of the pod, memory of containers", with(podOf(container("250m 2Gi")), func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: requests("1")}
		}), "1vCPU 3GB"},

		{"too much CPU", podOf(container("16001m")), tooLarge},
		{"too much memory", podOf(container("1 120Gi")), tooLarge},
		{"too much of both together", podOf(container("8 60Gi"), container("9 1Gi")), tooLarge},
		{"a number that does not fit", podOf(container("9223372036854775807E 1")), tooLarge},
		{"memory that does not fit", podOf(container("1 9223372036854775807E")), tooLarge},
		{"numbers that do not fit together", podOf(container("1 9223372036854775807"), container("1 1")), tooLarge},
	} {
		size, err := SizeOf(test.pod)
		got := size.String()
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		var reason *SizeError
		if err != nil && (!errors.As(err, &reason) || reason.Reason != "POD_CPU_MEM_EXCEEDS_MAX_FARGATE_SIZE") {
			t.Errorf("%s: the reason is %+v", test.name, reason)
		}
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]int64{"": 20, "- - 1Gi": 20, "- - 10Gi": 20, "- - 13Gi": 20, "- - 14Gi": 21,
		"- - 20Gi": 27, "- - 100Gi": 115, "- - 175Gi": 198, "- - 50G": 57} {
		if got, err := SizeOf(podOf(container(request))); err != nil || got.Storage != want {
			t.Errorf("%q: %d GiB, want %d: %v", request, got.Storage, want, err)
		}
	}
	if got, err := SizeOf(podOf(container("- - 50Gi"), container("- - 50Gi"))); err != nil || got.Storage != 115 {
		t.Errorf("twice 50 GiB: %d GiB %v", got.Storage, err)
	}
	for _, request := range []string{"- - 176Gi", "- - 9223372036854775807E"} {
		if _, err := SizeOf(podOf(container(request))); err == nil || !strings.Contains(err.Error(), "ephemeral-storage") {
			t.Errorf("%s: %v", request, err)
		}
	}
}
