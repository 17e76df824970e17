//go:build operations

// Package containers builds a release, examines its archives and images, and runs the
// compose file with these images behind both sample proxies.
package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const version = "v0.0.0-test"

// maxCollectorImage is the maximum size of the collector's image, in bytes.
const maxCollectorImage = 20 << 20

var programs = []string{"core", "gateway", "collector", "landing"}

// release is the folder with the release and the storage of the images. All tests share it.
var release = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "tributary-release-")
	if err != nil {
		return "", err
	}
	storage := `[storage]
driver = "overlay"
graphroot = "` + dir + `/storage"
runroot = "` + dir + `/run"
`
	if err := os.WriteFile(dir+"/storage.conf", []byte(storage), 0o600); err != nil {
		return dir, err
	}
	// The images of the build and those of the test are not stored with those of the
	// machine.
	if err := os.Setenv("CONTAINERS_STORAGE_CONF", dir+"/storage.conf"); err != nil {
		return dir, err
	}
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return dir, err
	}
	build := exec.Command("make", "-C", strings.TrimSpace(string(root)), "images", "DIST="+dir+"/dist", "VERSION="+version)
	if out, err := build.CombinedOutput(); err != nil {
		return dir, errors.Join(err, errors.New(string(out)))
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(insideVariable) == "" {
		dir, _ := release()
		if err := errors.Join(unmount(dir), os.RemoveAll(dir)); err != nil {
			_, _ = os.Stderr.WriteString("remove the release: " + err.Error() + "\n")
		}
	}
	os.Exit(code)
}

// unmount ends the mounts of the image storage.
func unmount(dir string) error {
	err := exec.Command("umount", dir+"/storage/overlay").Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // nothing is mounted
	}
	return err
}

// releaseFolder returns the folder of the release.
func releaseFolder(t *testing.T) string {
	t.Helper()
	dir, err := release()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

func TestRelease(t *testing.T) {
	dist := filepath.Join(releaseFolder(t), "dist")
	sums := command(t, dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		folder := "tributary_" + version + "_linux_" + arch
		if !strings.Contains(sums, folder+".tar.gz: OK") {
			t.Errorf("SHA256SUMS does not contain %s.tar.gz: %s", folder, sums)
		}
		unpacked := t.TempDir()
		command(t, dist, "tar", "-x", "-C", unpacked, "-f", folder+".tar.gz")
		for _, name := range []string{"LICENSE", "deploy/compose/compose.yaml", "deploy/systemd/tributary-core.service"} {
			if _, err := os.Stat(filepath.Join(unpacked, folder, name)); err != nil {
				t.Error(err)
			}
		}
		for _, program := range programs {
			path := filepath.Join(unpacked, folder, program)
			file, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			isInterpreter := func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }
			if file.Machine != machine || slices.ContainsFunc(file.Progs, isInterpreter) {
				t.Errorf("%s is not a static binary for %s", path, arch)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			serves := program == "core" || program == "gateway"
			if contains := bytes.Contains(content, []byte(`src="/assets/portal-`)); contains != serves {
				t.Errorf("%s contains the portal: %v, want %v", path, contains, serves)
			}
			checkModules(t, path)
		}
	}
	if got := command(t, dist, "tributary_"+version+"_linux_amd64/core", "version"); !strings.HasPrefix(got, version+" (commit ") {
		t.Errorf("core version prints %q, want %s", got, version)
	}
}

// checkModules compares the SBOM of a program with the modules that are recorded in the
// binary.
func checkModules(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var sbom struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	if sbom.BOMFormat != "CycloneDX" {
		t.Errorf("%s.cdx.json has the format %q, want CycloneDX", path, sbom.BOMFormat)
	}
	listed := map[string]bool{}
	for _, component := range sbom.Components {
		listed[component.Name+"@"+component.Version] = true
	}
	modules := 0
	for line := range strings.Lines(command(t, "", "go", "version", "-m", path)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			modules++
			if !listed[fields[1]+"@"+fields[2]] {
				t.Errorf("%s: the SBOM does not list %s@%s", path, fields[1], fields[2])
			}
		}
	}
	if modules < 10 {
		t.Errorf("%s contains only %d modules", path, modules)
	}
}

func TestImages(t *testing.T) {
	dist := filepath.Join(releaseFolder(t), "dist")
	for _, arch := range []string{"amd64", "arm64"} {
		for _, program := range programs {
			archive := filepath.Join(dist, "tributary-"+program+"_"+version+"_linux_"+arch+".image.tar")
			t.Run(program+" "+arch, func(t *testing.T) {
				info, err := os.Stat(archive)
				if err != nil {
					t.Fatal(err)
				}
				if program == "collector" && info.Size() > maxCollectorImage {
					t.Errorf("the image has %d bytes, more than %d", info.Size(), maxCollectorImage)
				}
				image := readImage(t, archive)
				want := "/" + program
				if config := image.config; config.Architecture != arch || config.Config.User != "65532:65532" ||
					!slices.Equal(config.Config.Entrypoint, []string{want}) || !slices.Equal(config.Config.Healthcheck.Test, []string{"CMD", want, "healthcheck"}) {
					t.Errorf("the configuration of the image is %+v", config)
				}
				files := slices.Sorted(slices.Values([]string{"etc/ssl/certs/ca-certificates.crt", program}))
				if !slices.Equal(image.files, files) {
					t.Errorf("the image contains the files %v, want %v", image.files, files)
				}
			})
		}
	}
}

// image is what an archive of `docker save` contains.
type image struct {
	config struct {
		Architecture string
		Config       struct {
			User        string
			Entrypoint  []string
			Healthcheck struct{ Test []string }
		}
	}
	files []string // sorted, without folders
}

func readImage(t *testing.T, archive string) image {
	t.Helper()
	entries := map[string][]byte{}
	readTar(t, archive, func(header *tar.Header, content io.Reader) {
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		entries[header.Name] = text
		if header.Typeflag == tar.TypeSymlink { // another name of a layer
			delete(entries, header.Name)
		}
	})
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(entries["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest.json: %v %s", err, entries["manifest.json"])
	}
	var result image
	if err := json.Unmarshal(entries[manifest[0].Config], &result.config); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest[0].Layers {
		reader := tar.NewReader(bytes.NewReader(entries[layer]))
		for {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.FileInfo().Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%s has a setuid or setgid bit", header.Name)
			}
			if header.Typeflag == tar.TypeReg {
				result.files = append(result.files, header.Name)
			}
		}
	}
	slices.Sort(result.files)
	return result
}

func readTar(t *testing.T, path string, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(header, reader)
	}
}
