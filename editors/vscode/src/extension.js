// Starts `collc lsp` for programs of collc, and stops it with the extension.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
    const [command, ...args] = workspace.getConfiguration("collc").get("command");
    const options = {
        documentSelector: [{ language: "coll" }],
        initializationOptions: { pictures: true },
        synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.coll") },
    };
    client = new LanguageClient("collc", "collc", { command, args }, options);
    return client.start();
};

exports.deactivate = () => client?.stop();
