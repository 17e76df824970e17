// Command protodeps writes the third-party .proto files that the protos of this project
// import. It creates them from the descriptors in the Go packages that go.mod pins. So
// buf reads the definitions that the Go code uses, and there is no second version of them
// to maintain. The files have no comments, because the descriptors do not contain them.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/envoyproxy/protoc-gen-validate/validate"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2/options"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/api/httpbody"
)

var imported = []string{
	"google/api/annotations.proto",
	"google/api/http.proto",
	"google/api/httpbody.proto",
	"validate/validate.proto",
	"protoc-gen-openapiv2/options/annotations.proto",
	"protoc-gen-openapiv2/options/openapiv2.proto",
}

func main() {
	out := flag.String("o", "third_party/proto", "output folder")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "protodeps:", err)
		os.Exit(1)
	}
}

func write(out string) error {
	var files []protoreflect.FileDescriptor
	for _, path := range imported {
		file, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, file)
	}
	return (&protoprint.Printer{}).PrintProtosToFileSystem(files, out)
}
