# nix run github:ddtop/ddtop -- PID
{
  description = "See a running Ruby's threads, its GVL and its flamegraph, live";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable"; # it takes the Go that go.mod names

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.buildGoModule {
          pname = "ddtop";
          version = "0.1.0";
          src = self;
          subPackages = [ "." ];
          # TestFlakeNamesTheModules prints it.
          vendorHash = "sha256-GPlHhL3nYtN0pr5YAKw3/5jsCyKIg1kn49OsAGJEd18=";
          env.CGO_ENABLED = "0";
          ldflags = [
            "-s"
            "-w"
          ];
          # The tests attach to processes, which the sandbox forbids.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = pkgs.lib.optionalString (pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform) ''
            installShellCompletion --cmd ddtop \
              --bash <($out/bin/ddtop completion bash) \
              --zsh <($out/bin/ddtop completion zsh) \
              --fish <($out/bin/ddtop completion fish)
          '';
          meta = {
            description = "See a running Ruby's threads, its GVL and its flamegraph, live";
            homepage = "https://github.com/ddtop/ddtop";
            license = pkgs.lib.licenses.mit;
            mainProgram = "ddtop";
          };
        };
      });
    };
}
