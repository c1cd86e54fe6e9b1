# SPDX-License-Identifier: Apache-2.0
#
# The broker and its tools in one image, which holds nothing but the static
# binary, the certificates of public authorities and an empty data directory.
#
#   docker build -t firn .
#   docker build -t firn --platform linux/arm64 .
#
# The Go image is pinned by its exact tag; to pin it by digest as well, say
# --build-arg GO_IMAGE=golang:1.26.8-bookworm@sha256:...

ARG GO_IMAGE=golang:1.26.8-bookworm

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH=amd64
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false -ldflags=-s -o /out/firn ./cmd/firn
RUN mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/firn /firn
# A volume that is mounted here for the first time takes over its owner.
COPY --from=build --chown=65532:65532 /out/data /var/lib/firn
ENV FIRN_LOG_DIRS=/var/lib/firn
USER 65532:65532
WORKDIR /var/lib/firn
EXPOSE 9092 9190
# There is no shell and no curl: the binary asks itself.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["/firn", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/firn"]
CMD ["serve"]
