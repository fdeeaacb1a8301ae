package ami

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Descriptions name the containerd that nodes run.
func TestDescriptionsNameContainerd(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "node", "source", "programs.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("programs.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(file.Require,
		func(r *modfile.Require) bool { return r.Mod.Path == "github.com/containerd/containerd/v2" })
	if i < 0 {
		t.Fatal("programs.mod does not require containerd")
	}
	if version := file.Require[i].Mod.Version; semver.MajorMinor(version) != "v"+containerd {
		t.Errorf("nodes run containerd %s, and images are said to have %s", version, containerd)
	}
}

func TestEveryVersionHasItsImages(t *testing.T) {
	t.Parallel()
	parameters := Parameters("eu-west-1")
	for _, v := range kubernetes.Versions() {
		for path, name := range map[string]string{
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2/recommended": "amazon-eks-node-" + v.Minor + "-v20261105",
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2-arm64/recommended": "amazon-eks-arm64-node-" + v.Minor + "-v20261105",
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2-gpu/recommended": "amazon-eks-gpu-node-" + v.Minor + "-v20261105",
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2023/x86_64/standard/recommended": "amazon-eks-node-al2023-x86_64-standard-" + v.Minor +
				"-v20261105",
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2023/arm64/standard/recommended": "amazon-eks-node-al2023-arm64-standard-" + v.Minor +
				"-v20261105",
			"/aws/service/eks/optimized-ami/" + v.Minor +
				"/amazon-linux-2023/x86_64/nvidia/recommended": "amazon-eks-node-al2023-x86_64-nvidia-" + v.Minor +
				"-v20261105",
			"/aws/service/bottlerocket/aws-k8s-" + v.Minor +
				"/x86_64/latest": "bottlerocket-aws-k8s-" + v.Minor + "-x86_64-v1.63.0-",
			"/aws/service/bottlerocket/aws-k8s-" + v.Minor +
				"-nvidia/arm64/1.62.1": "bottlerocket-aws-k8s-" + v.Minor + "-nvidia-arm64-v1.62.1-",
			"/aws/service/eks/optimized-ami/" + v.Minor + "/amazon-linux-2/amazon-eks-node-" + v.Minor +
				"-v20261022": "amazon-eks-node-" + v.Minor + "-v20261022",
		} {
			image, ok := Get("eu-west-1", parameters[path+"/image_id"])
			if !ok {
				t.Errorf("%s/image_id says %q, which is no image", path, parameters[path+"/image_id"])
				continue
			}
			if !strings.HasPrefix(image.Name, name) || image.KubernetesVersion != v.Minor {
				t.Errorf("%s is %s of %s", path, image.Name, image.KubernetesVersion)
			}
			if again, ok := ByParameter("eu-west-1", path+"/image_id"); !ok || again.ID != image.ID {
				t.Errorf("by %s: %s", path, again.ID)
			}
			if image.Family == Bottlerocket {
				if parameters[path+"/image_version"] != image.Release {
					t.Errorf("%s has version %q", path, parameters[path+"/image_version"])
				}
				continue
			}
			if want := v.Patch() + "-2026"; !strings.HasPrefix(parameters[path+"/release_version"], want) {
				t.Errorf("%s has release %q, want %s…", path, parameters[path+"/release_version"], want)
			}
			var summary map[string]string
			if err := json.Unmarshal([]byte(parameters[path]), &summary); err != nil ||
				summary["image_id"] != image.ID || summary["image_name"] != image.Name {
				t.Errorf("%s is %q: %v", path, parameters[path], err)
			}
		}
	}
}

func TestIdentifiersAreStableAndOfTheRegion(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ami-0[0-9a-f]{16}$`)
	seen := map[string]string{}
	for _, region := range []string{"eu-west-1", "us-west-2"} {
		for _, image := range All(region) {
			if !form.MatchString(image.ID) {
				t.Errorf("%s has ID %s", image.Name, image.ID)
			}
			if other := seen[image.ID]; other != "" {
				t.Errorf("%s is %s and %s", image.ID, image.Name, other)
			}
			seen[image.ID] = image.Name + " in " + region
			if _, ok := Get(region, image.ID); !ok {
				t.Errorf("%s is not found", image.ID)
			}
		}
	}
	// What users have written into their templates must stay true.
	if image, _ := ByParameter("eu-west-1",
		"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"); image.ID != "ami-027cd068957c2f35d" {
		t.Errorf("the plain image is %s", image.ID)
	}
	if _, ok := Get("eu-west-1", All("us-west-2")[0].ID); ok {
		t.Error("an image of us-west-2 is found in eu-west-1")
	}
}
